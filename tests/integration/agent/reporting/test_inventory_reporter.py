"""The inventories that agents publish: real ZooKeeper, real files, the fake package manager."""

import json

import pytest
from kazoo.security import make_acl

from support.agents import called, wait_for_versions
from support.fleets.written import WrittenFleet
from support.forks import run_forked
from support.trees import foo_assignment
from support.waiting import wait_until
from support.zookeeper import renew_session, sent_requests
from zkdeployment.agent.files.filesystem import Filesystem
from zkdeployment.base.host import Facts
from zkdeployment.publishing.store.hosts import decode

NODE = "/zkdeployment/inventory/h1"


@pytest.fixture
def host(fleet):
    return fleet.host("h1", role="web", rack="rack01", tags="control, ssd", labels="tier=web")


def published_inventory(fleet):
    return decode("h1", fleet.client.get(NODE)[0])


def has(host):
    return Filesystem(host.root).inventory(host.packages.installed())


def test_an_agent_publishes_its_inventory_at_registration_and_after_each_changing_deployment(fleet, host):
    fleet.service("/who/myfoo", "foo bar", "1.0", web=2)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        assert published_inventory(fleet).identity.role == "web"
        facts = Facts(
            "rack01", frozenset({"control", "ssd"}), {"tier": "web"}, published_inventory(fleet).identity.name
        )
        assert published_inventory(fleet).facts == facts
        assert published_inventory(fleet).inventory == has(host)
        assert set(has(host).packages) == {"foo"}
        assert len(has(host).markers) == 2
        writes = fleet.client.get(NODE)[1].version
        assert writes == 1  # created empty at registration, then written after the deployment
        fleet.set_version("r2")
        host.wait_for_version("r2")
        assert fleet.client.get(NODE)[1].version == writes
        fleet.remove("/who")
        fleet.set_version("r3")
        host.wait_for_version("r3")
        assert published_inventory(fleet).inventory == has(host)
        assert has(host).markers == ()
    assert fleet.client.exists(NODE), "it outlives the agent"


def test_the_inventory_is_published_after_a_failed_deployment(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", web=2)
    fleet.set_version("r1")
    host.fail("/who/myfoo 1")
    with host.agent():
        host.wait_for_error()
        wait_until(
            lambda: len(published_inventory(fleet).inventory.markers) == 1, "the deployed revision is published"
        )
        assert published_inventory(fleet).inventory == has(host)


TREE = """
/shop
  /front : foo
    version = '1.0'
    /deploy
      /web
        n = 2
"""


def markers(fleet):
    inventory = published_inventory(fleet).inventory
    return {marker.deployment.number: marker.sequence for marker in inventory.markers}


def test_an_inventory_has_the_publications_of_its_deployments_and_the_last_complete_one(fleet, host):
    with WrittenFleet(fleet.connection) as written:
        first = written.publish("r1", TREE)
        with host.agent() as agent:
            host.wait_for_version("r1")
            assert markers(fleet) == {0: first, 1: first}
            assert (host.node["completed"], host.node["address"]) == (first, "127.0.0.1")
            agent.reload()
            wait_until(lambda: published_inventory(fleet).completed == first, "the idle agent reports completion")
            assert published_inventory(fleet).address == "127.0.0.1"
        second = written.publish("r2", TREE.replace("n = 2", "n = 3"))
        host.fail("/shop/front 2")
        with host.agent():
            host.wait_for_error()
            assert (host.node["version"], host.node["sequence"], host.node["completed"]) == (None, 0, first)
            assert host.node["failed"] == {
                "sequence": second,
                "step": "deploy /shop/front 2",
                "path": "/shop/front",
                "n": 2,
                "packages": [],
            }
            history = f"/zkdeployment/history/{second:010}/h1"
            wait_until(
                lambda: fleet.get(history).get("failed") == host.node["failed"], "the record of the failure"
            )
            wait_until(lambda: markers(fleet) == {0: second, 1: second}, "the inventory after the failure")
            assert published_inventory(fleet).completed == first
        with host.agent():
            wait_until(lambda: host.node.get("completed") == first, "the next agent still knows the publication")


def test_a_failed_package_change_names_its_packages(fleet, host):
    with WrittenFleet(fleet.connection) as written:
        sequence = written.publish("r1", TREE.replace("1.0", "9.9"))
        with host.agent():
            host.wait_for_error()
            assert host.node["failed"] == {
                "sequence": sequence,
                "step": "prepare packages",
                "path": None,
                "n": None,
                "packages": ["foo"],
            }


def test_an_inventory_that_was_lost_with_the_session_is_published_again(fleet, host):
    with WrittenFleet(fleet.connection) as written, host.agent() as agent:
        sequence = written.publish("r1", TREE)
        host.wait_for_version("r1")
        agent.reload()
        wait_until(lambda: published_inventory(fleet).completed == sequence, "the complete inventory")
        lost = published_inventory(fleet)
        fleet.client.delete(NODE)
        renew_session(agent.agent._adapters.fleet._session)
        wait_until(lambda: fleet.client.exists(NODE) is not None, "the inventory in the new session")
        assert published_inventory(fleet) == lost


def test_a_marker_lost_by_hand_is_reported_and_an_unchanged_one_costs_no_request(fleet, host, monkeypatch):
    with WrittenFleet(fleet.connection) as written:
        sequence = written.publish("r1", TREE)
        with host.agent() as agent:
            host.wait_for_version("r1")
            agent.reload()
            wait_until(lambda: published_inventory(fleet).completed == sequence, "the complete inventory")
            sent = sent_requests(agent.agent._adapters.fleet._session, monkeypatch)
            written_before = fleet.client.get(NODE)[1].version
            for _ in range(3):
                looks = len(sent)
                agent.reload()
                wait_until(lambda looks=looks: len(sent) > looks, "the next cycle")
            assert not [request for request in sent if "/zkdeployment/inventory" in getattr(request, "path", "")]
            (host.root / "etc/foo/shop:front.1.deployed").unlink()
            agent.reload()
            wait_until(lambda: markers(fleet) == {0: sequence}, "the lost marker")
            assert fleet.client.get(NODE)[1].version == written_before + 1
            assert host.markers == ["shop:front.0.deployed"], "the agent reports, and repairs nothing"


def test_a_marker_without_a_sequence_gets_one_with_the_next_publication(fleet, host):
    with WrittenFleet(fleet.connection) as written:
        written.publish("r1", TREE)
        with host.agent():
            host.wait_for_version("r1")
        for name in host.markers:
            file = host.root / "etc/foo" / name
            older = json.loads(file.read_text())
            del older["sequence"]
            file.write_text(json.dumps(older))
        with host.agent():
            wait_until(lambda: markers(fleet) == {0: None, 1: None}, "the older markers")
            second = written.publish("r2", TREE)
            host.wait_for_version("r2")
            assert markers(fleet) == {0: second, 1: second}
        assert fleet.calls() == 2 * called("/shop/front 0", "/shop/front 1")


def test_a_host_with_another_role_has_completed_nothing(fleet, host):
    with WrittenFleet(fleet.connection) as written:
        written.publish("r1", TREE)
        with host.agent():
            host.wait_for_version("r1")
        host.config.write_text(host.config.read_text().replace("role = web", "role = db"))
        fleet.set_version(None)
        with host.agent():
            wait_until(lambda: host.node, "the host's node")
            assert "completed" not in host.node


def test_a_deployment_succeeds_although_the_inventory_cannot_be_written_until_later(fleet, host):
    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    fleet.set_version("r1")
    fleet.client.create(NODE, b"rubbish", makepath=True)
    fleet.client.set_acls(NODE, [make_acl("world", "anyone", read=True, admin=True)])
    with host.agent():
        host.wait_for_version("r1")
        assert published_inventory(fleet).inventory is None
        fleet.client.set_acls(NODE, [make_acl("world", "anyone", all=True)])
        fleet.set_version("r1", touched=True)
        wait_until(
            lambda: published_inventory(fleet).inventory is not None, "the next look at the cluster version"
        )
        assert published_inventory(fleet).inventory == has(host)


def test_a_host_whose_agent_ended_is_shown_as_absent_until_it_is_forgotten(fleet, host):
    def run(verb, *argv):
        done = run_forked(verb, "-z", fleet.connection, *argv)
        return done.returncode, done.stdout

    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    fleet.set_version("r1")
    fleet.client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    fleet.client.create(
        "/zkdeployment/targets/web", json.dumps([foo_assignment(version="1.0").to_json()]).encode()
    )
    second = fleet.host("h2")
    with second.agent(), host.agent():
        wait_for_versions([host, second], "r1")
        code, out = run("status", "-o", "json")
        assert (code, [host["state"] for host in json.loads(out)["hosts"]]) == (0, ["converged", "converged"])
        assert run("forget", "h1")[0] == 3
    with fleet.host("h3").agent() as other:
        wait_until(lambda: fleet.get("/hosts/h3").get("version") == "r1" or other.ended, "h3")
        code, out = run("status", "-o", "json")
        hosts = {host["id"]: (host["state"], host["expected"]) for host in json.loads(out)["hosts"]}
        assert hosts == {"h1": ("absent", True), "h2": ("absent", False), "h3": ("converged", True)}
        assert code == 4
        assert "h1.example.com" in run("status")[1]
        assert run("forget", "h1.example.com")[0] == 3  # the tree deploys something only there
        assert run("forget", "--force", "h1.example.com") == (0, "forgot h1.example.com\n")
        code, out = run("status")
        assert (code, "no host runs what the tree deploys to web" in out) == (4, True)

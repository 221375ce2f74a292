"""A failed group stops only itself: a real syncer, real agents and scripts, and a real ZooKeeper."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from support.agents import AgentHost, Fleet, called, put_script, wait_for_versions
from support.commands import invoke
from support.fleets.coordinated import CoordinatedFleet, ScriptedRollout
from support.strategies import canary_first
from support.waiting import wait_until
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.base.stop import GroupStop, Stop
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.publishing.rules.review import review
from zkdeployment.strategies.state import Ending
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing

GROUP = "p1/store/v1/shop"
NODE = "/zkdeployment/group-stops/p1%2Fstore%2Fv1%2Fshop"

TREE = """
/b
  /web : bar
    version = '{bar}'
    /deploy
      /h1
      /h2
/z
  /one : foo
    version = '{foo}'
    /deploy
      /h1
      /h2
  /two : foo
    version = '{foo}'
    /deploy
      /h1
      /h2
"""

DOCUMENT = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {{project: p1, composite-app: store, version: v1, name: {name}}}
data:
  composite-profile: plain
  apps: {{app: [{path}]}}
  state: Instantiated
  update: approve
  fleet-stop: {stops}
  approval: {{content: "{content}", by: alice@example.com}}
"""

QUARANTINE = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: quux, version: "9.9"}
data: {reason: loses orders, by: alice@example.com, time: 2026-11-22}
"""


def document(tree: str, name: str, path: str, stops: str) -> str:
    """Return the document of an instantiated group whose content in ``tree`` is approved."""
    text = DOCUMENT.format(name=name, path=path, stops=stops, content="sha256:" + "0" * 64)
    reviewed = review([SourceFile("a.zk", tree.encode()), SourceFile("i.yaml", text.encode())])
    snapshot = intent_snapshots(reviewed.documents, reviewed.linted.tree)["p1", "store", "v1", name]
    return text.replace("sha256:" + "0" * 64, snapshot.content.digest)


class Site:
    """Two groups on two hosts: the shop below /z, whose failures stop the shop, and the web below /b."""

    def __init__(self, fleet: Fleet, publishing: Publishing) -> None:
        self.fleet = fleet
        self.publishing = publishing
        self.h1, self.h2 = fleet.host("h1"), fleet.host("h2")
        self.stops = "group"
        self.tree = TREE

    def publish(self, *, foo: str, bar: str, **more: str) -> str:
        tree = self.tree.format(foo=foo, bar=bar)
        revision = self.publishing.push(
            tree,
            shop_yaml=document(tree, "shop", "/z", self.stops),
            web_yaml=document(tree, "web", "/b", "fleet"),
            **more,
        )
        self.publishing.sync()
        return revision

    def deploy(self) -> None:
        """Publish version 1.0 of everything and wait until both hosts have it."""
        revision = self.publish(foo="1.0", bar="1.0")
        with self.h1.agent(), self.h2.agent():
            wait_for_versions([self.h1, self.h2], revision)
        self.fleet.journal.unlink()

    @contextmanager
    def failed(self) -> Iterator[str]:
        """Deploy, then publish version 2.0, at which h1 fails; h1's agent runs during the block."""
        self.deploy()
        self.h1.fail("/z/one 0")
        revision = self.publish(foo="2.0", bar="2.0")
        with self.h1.agent():
            self.h1.wait_for_version(revision)
            yield revision

    def calls(self, host: AgentHost) -> list[str]:
        return [call for call in self.fleet.calls() if call.startswith(f"{host.id} ")]

    def rollout(self, revision: str) -> ScriptedRollout:
        """Begin the rollout of the last publication."""
        sequence = self.fleet.get("/zkdeployment/targets")["sequence"]
        rollout = ScriptedRollout(self.fleet, revision, sequence=sequence, published=True)
        rollout.begin()
        return rollout

    def resume(self) -> None:
        with Session(self.fleet.connection) as session:
            act = Act("alice@example.com", f"intent resume {GROUP}", "the database is back", time.time())
            ZooKeeperClusterControl(session).resume_group(GROUP, act)


@pytest.fixture
def site(fleet: Fleet, publishing: Publishing) -> Site:
    return Site(fleet, publishing)


def versions(host: AgentHost) -> dict[str, str]:
    return {name: packages[0].version for name, packages in host.packages.installed().items()}


def test_a_failed_group_stops_only_its_own_steps_on_the_failed_host(site: Site):
    with site.failed() as revision:
        assert site.fleet.version == revision
        assert site.calls(site.h1) == [*called("/b/web 0"), "h1 start /z/one 0", "h1 fail /z/one 0"]
        stop = site.fleet.get(NODE)
        assert (stop["host"], stop["step"], stop["revision"]) == ("h1", "deploy /z/one 0", revision)
        assert stop["sequence"] == site.h1.node["sequence"]
        assert site.h1.node["lacking"][GROUP]["services"] == ["/z/one", "/z/two"]
        assert "error" not in site.h1.node


def test_no_other_host_begins_a_step_of_a_stopped_group_or_changes_its_software(site: Site):
    with site.failed() as revision, site.h2.agent():
        site.h2.wait_for_version(revision)
        assert site.calls(site.h2) == called("/b/web 0", host="h2")
        assert versions(site.h2) == {"foo": "1.0", "bar": "2.0"}
        assert site.h2.node["lacking"] == {GROUP: {"services": ["/z/one", "/z/two"]}}


def test_a_host_in_the_middle_of_its_plan_begins_no_step_of_a_group_that_is_stopped_meanwhile(site: Site):
    site.deploy()
    site.h1.fail("/z/one 0")
    block = site.h2.block()
    revision = site.publish(foo="2.0", bar="2.0")
    with site.h2.agent():
        wait_until(lambda: site.fleet.calls() == ["h2 start /b/web 0"], "h2 is in the other group's script")
        with site.h1.agent():
            wait_until(lambda: site.fleet.get(NODE), "h1 has stopped the group")
            block.unlink()
            wait_for_versions([site.h1, site.h2], revision)
    assert site.calls(site.h2) == called("/b/web 0", host="h2")


def test_a_host_that_completes_its_role_in_a_stopped_fleet_begins_no_step_of_a_group_stopped_meanwhile(site: Site):
    site.tree = f"{TREE.replace('/h2', '/web')}/roles\n  /web : ctl\n    version = '1.0'\n"
    host = site.fleet.host("h3", role="web")
    first = site.publish(foo="1.0", bar="1.0")
    with host.agent(), Session(site.fleet.connection) as session:
        host.wait_for_version(first)
        block = host.block()
        site.tree += "/other\n"
        revision = site.publish(foo="1.0", bar="1.0")
        wait_until(lambda: site.calls(host)[-1] == "h3 start starting-deployments /roles/web", "h3 has its role")
        ZooKeeperClusterControl(session).stop(Act("alice@example.com", "stop", "smoke", 1.0))
        stop = Stop("h1", "h1.example.com", revision, "deploy /z/one 0", "boom", 1.0)
        sequence = site.fleet.get("/zkdeployment/targets")["sequence"]
        assert ZooKeeperFleet(session).stop_group(GroupStop(GROUP, sequence, stop))
        site.fleet.journal.unlink()
        block.unlink()
        wait_until(lambda: "h3 end ending-deployments /roles/web" in site.calls(host), "h3 has completed its role")
    assert [call for call in site.calls(host) if "deployments" not in call] == called("/b/web 0", host="h3")


def test_a_publication_that_changes_the_group_ends_its_stop_and_all_hosts_deploy_it(site: Site):
    with site.failed() as failed, site.h2.agent():
        site.h2.wait_for_version(failed)
        (site.h1.root / "fail").unlink()
        revision = site.publish(foo="1.0", bar="2.0")
        wait_for_versions([site.h1, site.h2], revision)
        assert site.fleet.get(NODE) == {}
        assert "lacking" not in site.h1.node
        assert "lacking" not in site.h2.node
    assert "h1 end /z/two 0" in site.fleet.calls()
    assert "h2 end /z/two 0" in site.fleet.calls()
    assert versions(site.h1) == versions(site.h2) == {"foo": "1.0", "bar": "2.0"}


def test_a_publication_without_a_change_of_the_group_does_not_end_its_stop(site: Site):
    with site.failed():
        site.fleet.journal.unlink()
        revision = site.publish(foo="2.0", bar="1.0")
        site.h1.wait_for_version(revision)
        assert site.calls(site.h1) == called("/b/web 0")
        assert site.h1.node["lacking"][GROUP]["services"] == ["/z/one", "/z/two"]
        assert site.fleet.get(NODE)


def test_hosts_run_the_steps_that_they_lack_when_an_operator_resumes_the_group(site: Site):
    with site.failed() as revision, site.h2.agent():
        site.h2.wait_for_version(revision)
        (site.h1.root / "fail").unlink()
        site.resume()
        for host in (site.h1, site.h2):
            wait_until(lambda host=host: "lacking" not in host.node, f"{host.id} lacks nothing")
            host.wait_for_version(revision)
    assert versions(site.h1) == versions(site.h2) == {"foo": "2.0", "bar": "2.0"}
    assert "h2 end /z/two 0" in site.fleet.calls()
    with pytest.raises(RefusedError, match=f"group {GROUP} is not stopped"):
        site.resume()


def test_a_failure_stops_the_fleet_unless_the_document_limits_it_to_the_group(site: Site):
    site.stops = "fleet"
    site.deploy()
    site.h1.fail("/z/one 0")
    site.publish(foo="2.0", bar="2.0")
    with site.h1.agent():
        site.h1.wait_for_error()
    assert site.fleet.version is None
    assert site.fleet.get(NODE) == {}


KILLED = [
    "before:lack",
    "after:lack",
    "before:stop-group",
    "after:stop-group",
    "before:release@2",
    "before:record",
    "after:record",
]


@pytest.mark.parametrize("point", KILLED)
def test_a_host_that_is_killed_around_its_failure_stops_the_group_and_completes_the_other_groups(
    site: Site, point: str
):
    for package in ("foo", "bar"):
        put_script(site.h1.root, package)
    revision = site.publish(foo="1.0", bar="1.0")
    site.h1.fail("/z/one 0")
    with site.h1.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
    with site.h1.process():
        wait_until(lambda: site.h1.has_finished(revision) and "lacking" in site.h1.node, "h1 lacks only the group")
        assert site.fleet.version == revision
        assert site.fleet.get(NODE)["step"] == "deploy /z/one 0"
        assert site.h1.node["lacking"][GROUP]["services"] == ["/z/one", "/z/two"]
    assert "h1 end /b/web 0" in site.fleet.calls()
    assert not any("/z/two" in call for call in site.fleet.calls())


def test_no_host_undeploys_a_service_of_a_stopped_group_although_the_service_is_older_than_the_group(site: Site):
    site.stops = "fleet"
    site.deploy()
    site.h1.fail("/z/one 0")
    tree = TREE.format(foo="2.0", bar="2.0")
    tree = tree.replace("      /h2\n  /two", "  /two")  # /z/one leaves h2
    site.publishing.push(
        tree, shop_yaml=document(tree, "shop", "/z", "group"), web_yaml=document(tree, "web", "/b", "fleet")
    )
    site.publishing.sync()
    assert site.fleet.get("/zkdeployment/groups") == {GROUP: ["/z"]}
    with site.h1.agent():
        wait_until(lambda: site.fleet.get(NODE), "h1 has stopped the group")
        with site.h2.agent():
            wait_until(lambda: "lacking" in site.h2.node, "h2 has reached the publication")
            assert site.h2.node["lacking"] == {GROUP: {"services": ["/z/one", "/z/two"]}}
    assert site.calls(site.h2) == called("/b/web 0", host="h2")
    assert versions(site.h2) == {"foo": "1.0", "bar": "2.0"}
    site.stops = "fleet"
    site.publish(foo="2.0", bar="2.0")
    assert site.fleet.get("/zkdeployment/groups") == {}


def test_an_invented_stop_only_withholds_steps_and_a_removed_stop_deploys_only_published_services(
    site: Site,
):
    site.deploy()
    site.fleet.write(NODE, {})
    revision = site.publish(foo="1.0", bar="2.0")
    with site.h1.agent():
        site.h1.wait_for_version(revision)
        assert site.calls(site.h1) == called("/b/web 0")
        site.fleet.remove(NODE)
        site.fleet.set_version(revision)
        wait_until(lambda: "lacking" not in site.h1.node and site.h1.has_finished(revision), "h1 lacks nothing")
    assert "h1 end /z/two 0" in site.fleet.calls()


def test_a_service_that_waits_for_a_service_of_the_stopped_group_fails(site: Site):
    site.deploy()
    site.h1.fail("/z/one 0")
    tree = TREE.format(foo="2.0", bar="2.0").replace("'2.0'", "'2.0'\n    deploy_after = ['/z/one']", 1)
    site.publishing.push(
        tree, shop_yaml=document(tree, "shop", "/z", "group"), web_yaml=document(tree, "web", "/b", "fleet")
    )
    site.publishing.sync()
    with site.h1.agent():
        error = site.h1.wait_for_error()
    assert error == "/z/one is not deployed on this host, because its group is stopped"
    assert site.fleet.version is None
    assert site.fleet.get(NODE)["step"] == "deploy /z/one 0"


def test_a_rollout_continues_over_a_stopped_group_and_its_hosts_run_the_steps_after_a_resume(
    site: Site, zookeeper: str
):
    site.deploy()
    site.h1.fail("/z/one 0")
    strategy = canary_first({"node_names": ["h1"]})
    with ExitStack() as stack:
        for host in (site.h1, site.h2):
            stack.enter_context(host.agent())
        wait_until(lambda: site.h1.node and site.h2.node, "both are registered")
        revision = site.publish(foo="2.0", bar="2.0", strategy_yaml=strategy)
        session = stack.enter_context(Session(zookeeper))
        with CoordinatedFleet(zookeeper, session).coordinating():
            wait_for_versions([site.h1, site.h2], revision)
            assert site.calls(site.h2) == called("/b/web 0", host="h2")
            (site.h1.root / "fail").unlink()
            site.resume()
            for host in (site.h1, site.h2):
                wait_until(lambda host=host: "lacking" not in host.node, f"{host.id} lacks nothing")
                host.wait_for_version(revision)
    assert versions(site.h2) == {"foo": "2.0", "bar": "2.0"}


def test_a_host_that_runs_the_steps_it_lacks_waits_for_a_grant_as_soon_as_the_revision_is_published_again(
    site: Site,
):
    site.deploy()
    site.h1.fail("/z/one 0")
    with site.h1.agent():
        revision = site.publish(foo="2.0", bar="2.0", strategy_yaml=canary_first({"node_names": ["h1"]}))
        rollout = site.rollout(revision)
        rollout.grant("deploy")
        wait_until(lambda: site.h1.has_finished(revision) and "lacking" in site.h1.node, "h1 lacks only the group")
        (site.h1.root / "fail").unlink()
        block = site.h1.block()
        before = len(site.fleet.calls())
        site.resume()
        wait_until(lambda: len(site.fleet.calls()) > before, "h1 runs the first step that it lacks")
        site.publishing.sync(force=True)
        block.unlink()
        wait_until(lambda: "waits to prepare" in site.h1.node.get("step", ""), "h1 waits for its turn")
        assert site.fleet.calls()[before:] == called("/b/web 0")
        site.rollout(revision).grant("deploy")
        wait_until(lambda: "lacking" not in site.h1.node and site.h1.has_finished(revision), "h1 lacks nothing")
    assert "h1 end /z/two 0" in site.fleet.calls()


def test_a_publication_of_documents_alone_lets_a_host_run_the_steps_that_it_lacks_without_a_grant(
    site: Site, zookeeper: str
):
    strategy = canary_first({"node_names": ["h1"]})
    site.deploy()
    site.h1.fail("/z/one 0")
    with Session(zookeeper) as session, (fleet := CoordinatedFleet(zookeeper, session)).coordinating():
        with site.h1.agent(), site.h2.agent():
            wait_until(lambda: site.h1.node and site.h2.node, "both are registered")
            revision = site.publish(foo="2.0", bar="2.0", strategy_yaml=strategy)
            wait_for_versions([site.h1, site.h2], revision)
            wait_until(lambda: fleet.running.ending is Ending.COMPLETED, "the rollout ends")
        (site.h1.root / "fail").unlink()
        revision = site.publish(foo="2.0", bar="2.0", strategy_yaml=strategy, quarantine_yaml=QUARANTINE)
        site.resume()
        published = site.fleet.get("/zkdeployment/targets")
        assert published["since"] < published["sequence"]
        with site.h1.agent():
            wait_until(lambda: "lacking" not in site.h1.node, "h1 lacks nothing")
            site.h1.wait_for_version(revision)
    assert "h1 end /z/two 0" in site.fleet.calls()


def test_a_host_whose_steps_are_all_withheld_waits_for_its_turn_although_the_group_is_resumed_before(site: Site):
    site.tree = TREE.replace("/web : bar\n", "/web : bar\n    rerun = 'changed'\n")
    site.h2.fail("/z/one 0")
    revision = site.publish(foo="1.0", bar="1.0", strategy_yaml=canary_first({"node_names": ["h1"]}))
    rollout = site.rollout(revision)
    rollout.grant("deploy")
    rollout.grant("deploy", "h2")
    with site.h1.agent():
        site.h1.wait_for_version(revision)
        with site.h2.agent():
            site.h2.wait_for_version(revision)
            assert GROUP in site.h2.node["lacking"]
        before = site.calls(site.h1)
        site.publishing.sync(force=True)
        wait_until(lambda: "waits to prepare" in site.h1.node.get("step", ""), "h1 waits for its turn")
        site.resume()
        rollout = site.rollout(revision)
        rollout.grant("prepare")
        wait_until(lambda: "waits to deploy" in site.h1.node.get("step", ""), "h1 has prepared")
        assert site.calls(site.h1) == before
        rollout.grant("deploy")
        site.h1.wait_for_version(revision)
    assert site.calls(site.h1)[len(before) :] == called("/z/one 0", "/z/two 0")


def test_the_verb_resumes_a_group_and_records_who_did(site: Site):
    with site.failed():
        (site.h1.root / "fail").unlink()
        options = ["-z", site.fleet.connection, "--reason", "the database is back"]
        assert invoke("intent", "resume", GROUP, *options).stdout == f"resumed {GROUP}\n"
        wait_until(lambda: "lacking" not in site.h1.node, "h1 lacks nothing")
        refused = invoke("intent", "resume", GROUP, *options)
        assert (refused.returncode, "is not stopped" in refused.stderr) == (3, True)
    with Session(site.fleet.connection) as session:
        (act,) = ZooKeeperFleetReader(session).acts()
    assert (act.what, act.reason) == (f"intent resume {GROUP}", "the database is back")


def test_status_why_and_the_intent_show_the_failure(site: Site):
    with site.failed() as revision:
        with Session(site.fleet.connection) as session:
            snapshot = ZooKeeperFleetReader(session).snapshot()
        explanation = explain_host(HostSnapshot(snapshot), "h1", now=time.time())
        assert "but lacks /z/one, /z/two, because the group is stopped" in explanation.sentence
        status = fleet_status(snapshot)
        assert status.group_stops[0].stop.revision == revision
        shown = invoke("intent", "status", GROUP, "-z", site.fleet.connection, "-o", "json")
        assert json.loads(shown.stdout)["rsync-status"] == {"Failed": 1, "Pending": 1, "Retrying": 2}


def test_a_drain_that_fails_within_a_group_stops_only_the_group_and_ends_after_its_resume(site: Site):
    site.deploy()
    place = "/zkdeployment/maintenance/h2"
    options = ["-z", site.fleet.connection, "--reason", "new kernel"]
    site.h2.fail("-u /z/one 0")
    revision = site.fleet.version
    with site.h1.agent(), site.h2.agent():
        wait_for_versions([site.h1, site.h2], revision)  # else h2 may find no other host that runs a service
        assert invoke("cordon", "h2", "--drain", *options).returncode == 0
        kept = dict.fromkeys(("/z/one", "/z/two"), f"its group {GROUP} is stopped")
        wait_until(lambda: site.fleet.get(place).get("kept") == kept, "the other services are drained")
        assert site.fleet.version == revision
        assert site.fleet.get(NODE)["step"] == "undeploy /z/one 0"
        assert site.calls(site.h2) == [
            *called("-u /b/web 0", host="h2"),
            "h2 start -u /z/one 0",
            "h2 fail -u /z/one 0",
        ]
        (site.h2.root / "fail").unlink()
        site.resume()
        wait_until(lambda: site.fleet.get(place)["kept"] == {}, "the host is drained")
        assert invoke("uncordon", "h2", *options[:2]).returncode == 0
        site.h2.wait_for_version(revision)
    assert len(site.h2.markers) == 3

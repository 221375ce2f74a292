"""Agents with publishers: properties for scripts, what outlives a restart, keys that change, and mixed fleets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.agents import called, put_script
from support.commands import invoke
from support.fleets.signed import EVIL, STRATEGY, TARGETS, TREE, SignedFleet
from support.keys import SIGNED, make_key, make_publishers
from support.strategies import EXAMPLE_FILE
from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
from zkdeployment.base.errors import AllStopError, NotConvergedError
from zkdeployment.base.system import WantedSystem
from zkdeployment.programs.main import main
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.signing.statement import SignedStatement
from zkdeployment.publishing.watermark import published_file

if TYPE_CHECKING:
    from pathlib import Path

    from kazoo.client import KazooClient

    from support.agents import AgentHost
    from zkdeployment.agent.daemon.trusted_publications import TrustedTargets
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import Published

#: A script that records the verified properties of its service in the journal.
PROPERTIES_SCRIPT = """\
#!/bin/sh
echo "begun" >> "$ZKDEPLOYMENT_ROOT/../../journal"
while [ -e "$ZKDEPLOYMENT_ROOT/block" ]; do sleep 0.02; done
echo "$* $(cat "$ZKDEPLOYMENT_PROPERTIES" || echo none)" >> "$ZKDEPLOYMENT_ROOT/../../journal"
"""


@pytest.fixture
def world(tmp_path: Path, zookeeper: str, client: KazooClient) -> SignedFleet:
    return SignedFleet(tmp_path, zookeeper, client)


@pytest.fixture
def host(world: SignedFleet) -> AgentHost:
    return world.hosts[0]


def colors(world: SignedFleet) -> list[object]:
    """Return the colors that the first service's script found in its verified properties, in order."""
    calls = [call for call in world.fleet.calls() if call.startswith("/who/web 0 {")]
    return [json.loads(call.removeprefix("/who/web 0 "))["color"] for call in calls]


def follow(world: SignedFleet, host: AgentHost) -> None:
    wait_until(lambda: world.has_finished(host), f"{host.id} follows")


def test_a_property_that_changes_between_plan_and_script_has_no_effect(world: SignedFleet, host: AgentHost):
    world.publish()
    with host.agent():
        follow(world, host)
        put_script(host.root, "foo", PROPERTIES_SCRIPT)
        blocked = host.block()
        world.publish(color="green")
        wait_until(lambda: world.fleet.calls()[-1] == "begun", "the script has begun")
        world.client.set("/colors", b'{"main": "evil"}')
        blocked.unlink()
        follow(world, host)
        assert colors(world) == ["green"]
        # The next plan reads the property again.
        world.publish("2.0", color="green")
        world.wait_for_refusal("the properties of /who/web are not those that were signed: expected SHA-256")
        world.publishing.sync(force=True)
        follow(world, host)
    assert colors(world) == ["green"]
    assert world.fleet.calls()[-1] == "h1 end /who/web 0"


def test_a_failed_host_tries_the_signed_publication_again_and_nothing_that_is_not_signed(
    world: SignedFleet, host: AgentHost
):
    cause = host.fail("/who/web 0")
    with host.agent():
        host.wait_for_version("initial")
        revision = world.publish()
        host.wait_for_error()
        wait_until(lambda: world.fleet.version is None, "the fleet stops")
        cause.unlink()
        stamp = world.client.get("/hosts")[1].version + 1
        world.fleet.set_version(None, retry={"host": "h1", "revision": "1" * 40, "stamp": stamp})
        wait_until(lambda: "1" * 12 in host.node.get("error", ""), "it refuses what is not signed")
        assert invoke("retry", "-z", world.fleet.connection, "h1", "--reason", "repaired").returncode == 0
        host.wait_for_version(revision)
    assert world.fleet.version is None


def test_no_record_in_zookeeper_drains_a_host_with_publishers(world: SignedFleet, host: AgentHost):
    world.publish()
    with world.agents():
        world.converge()
        deployed = host.markers
        calls = world.fleet.calls()
        record = {"by": "mallory", "reason": "outage", "since": 1.0, "until": None, "drain": True}
        write_node(world.client, "/zkdeployment/maintenance/h1", record)
        wait_until(lambda: "kept" in world.fleet.get("/zkdeployment/maintenance/h1"), "the drain is refused")
    assert world.fleet.get("/zkdeployment/maintenance/h1")["kept"] == {
        "/who/web": "this host follows only signed publications, and a maintenance is not signed"
    }
    assert host.markers == deployed != []
    assert world.fleet.calls() == calls


def test_the_node_of_an_old_agent_is_not_believed(world: SignedFleet, host: AgentHost):
    world.publish()
    with host.agent():
        follow(world, host)
    revision = world.publish("2.0")
    assert not world.client.exists("/hosts/h1")
    write_node(world.client, "/hosts/h1", {"name": "h1", "version": revision})
    with host.agent():
        wait_until(lambda: world.client.get("/hosts/h1")[1].ephemeralOwner, "the agent registers")
        follow(world, host)
    assert [package.version for package in host.packages.installed()["foo"]] == ["2.0"]
    assert world.fleet.calls() == called("/who/web 0", "/who/web 0")


def test_a_fresh_host_refuses_a_publication_below_its_minimum(world: SignedFleet):
    world.publish()
    old, version = world.published_nodes(), world.publishing.version
    world.publish("2.0")
    sequence = json.loads(world.client.get(SIGNED)[0].splitlines()[0])["sequence"]
    fresh = world.fleet.host("h3", publishers=str(world.publishers), minimum_sequence=str(sequence))
    world.hosts = [fresh]
    world.restore_nodes(old)
    world.fleet.set_version(version)
    with fresh.agent():
        world.wait_for_refusal(f"the publication is too old: expected sequence {sequence} (minimum-sequence)")
        assert world.fleet.calls() == []
        world.publishing.sync(force=True)
        wait_until(lambda: world.has_finished(fresh), "the host follows")


def test_a_fresh_host_with_a_minimum_does_not_believe_a_fleet_without_publications(world: SignedFleet):
    fresh = world.fleet.host("h3", publishers=str(world.publishers), minimum_sequence="7")
    world.hosts = [fresh]
    world.fleet.set_version("initial")
    with fresh.agent():
        world.wait_for_refusal("the publication is not signed")


def test_the_commands_of_operators_name_the_refusal(world: SignedFleet, host: AgentHost, capsys):
    def run(*argv: str) -> str:
        with pytest.raises(SystemExit):
            main([*argv, "-z", world.fleet.connection])
        return capsys.readouterr().out

    world.publish()
    with host.agent():
        follow(world, host)
        world.fleet.set_version("evil")
        world.wait_for_refusal("the cluster version")
        for verb in (("status",), ("why", "h1"), ("monitor", "--cluster")):
            said = " ".join(run(*verb).split())
            assert "the signed publication is of another revision" in said, verb
            assert "publish again with 'zkdeployment resume --latest'" in said, verb


def test_the_verified_publication_outlives_restarts_and_reboots(world: SignedFleet, host: AgentHost):
    world.publish()
    old = world.published_nodes()
    world.publish("2.0")
    with host.agent():
        follow(world, host)
    for file in host.run.iterdir():  # a reboot
        if file.is_file():
            file.unlink()
    truth, version = world.published_nodes(), world.publishing.version
    for path, data in old.items():
        world.write(path, data)
    world.fleet.set_version(json.loads(old[SIGNED].split(b"\n")[0])["revision"])
    before = world.fleet.calls()
    with host.agent():
        world.wait_for_refusal("the store went back: expected publication")
        assert world.fleet.calls() == before
        world.restore_nodes(truth)
        world.fleet.set_version(version)
        follow(world, host)


def test_an_agent_that_dies_after_the_verification_deploys_later_and_refuses_older_publications(
    world: SignedFleet, host: AgentHost
):
    older = world.publish("1.0")
    old = world.published_nodes()
    newer = world.publish("2.0")
    truth = world.published_nodes()
    with host.process(failpoints="after:remember-publication=kill") as process:
        assert process.wait() != 0
    world.restore_nodes(old)
    world.fleet.set_version(older)
    with host.agent():
        world.wait_for_refusal("the store went back: expected publication")
        assert world.fleet.calls() == []
        world.restore_nodes(truth)
        world.fleet.set_version(newer)
        follow(world, host)
    assert world.fleet.calls() == ["h1 start /who/web 0", "h1 end /who/web 0"]


def test_a_publication_between_the_check_and_the_plan_is_verified_and_remembered(
    world: SignedFleet, host: AgentHost, monkeypatch: pytest.MonkeyPatch
):
    memory = published_file(host.root / "var" / "lib" / "zkdeployment" / "verified")
    between = [lambda: world.write(SIGNED, b""), lambda: world.publishing.sync(force=True)]
    checked: dict[Revision, int] = {}
    planned: list[int] = []
    check, write = TrustedPublications.published, TrustedPublications.write_properties

    def published(self: TrustedPublications, identity: Identity, revision: Revision) -> Published:
        found = check(self, identity, revision)
        if revision not in checked:
            checked[revision] = found.sequence
            between.pop()()
        return found

    def write_properties(self: TrustedPublications, targets: TrustedTargets) -> None:
        planned.append(memory.load().sequence)
        write(self, targets)

    monkeypatch.setattr(TrustedPublications, "published", published)
    monkeypatch.setattr(TrustedPublications, "write_properties", write_properties)
    first = world.publish()
    with host.agent():
        follow(world, host)
        assert planned[0] > checked[first]
        before = world.fleet.calls()
        world.publish("2.0")
        world.wait_for_refusal("the publication is not signed: expected a signature")
        assert world.fleet.calls() == before


def test_properties_exist_as_long_as_the_host_runs_the_service(world: SignedFleet, host: AgentHost):
    world.publish()
    files = host.run / "properties"
    with host.agent():
        follow(world, host)
        assert [file.name for file in files.iterdir()] == ["who:web.json"]
        assert ((files / "who:web.json").stat().st_mode & 0o777, files.stat().st_mode & 0o777) == (0o600, 0o700)
        world.publishing.push("/who\n  /other : bar\n    version = '1.0'\n    /deploy\n      /h2\n")
        world.publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
        follow(world, host)
    assert [*files.iterdir()] == []
    assert world.fleet.calls()[-2:] == ["h1 start -u /who/web 0", "h1 end -u /who/web 0"]


def test_keys_are_changed_without_a_pause(world: SignedFleet):
    new = make_key(world.key.with_name("new"))
    world.publish()
    with world.agents() as agents:
        world.converge()
        make_publishers(world.publishers, world.key, new)
        for agent in agents:
            agent.reload()
        world.publishing.key = new
        world.publishing.sync()  # signs the standing publication again
        world.wake()
        world.converge()
        world.publish("2.0")
        world.converge()
        make_publishers(world.publishers, new)
        world.wake()
        world.publish("1.0")
        world.converge()
        assert world.publishing.get("/zkdeployment/stops") in (None, {})
        assert not any(agent.ended for agent in agents)
        # The old key is worth nothing any more.
        world.sign(world.key)
        world.wake()
        world.wait_for_refusal("is not signed by one of the publishers of this host")


def test_a_stolen_key_is_changed_after_the_fleet_stopped_and_a_plain_resume_ends_the_stop(world: SignedFleet):
    new = make_key(world.key.with_name("new"))
    revision = world.publish()
    with world.agents():
        world.converge()
        make_publishers(world.publishers, new)
        world.wake()
        world.wait_for_refusal("is not signed by one of the publishers of this host")
        before, calls = world.published_nodes(), world.fleet.calls()
        world.publishing.key = new
        with pytest.raises(AllStopError):
            world.publishing.sync()
        after = world.published_nodes()
        assert {path for path in after if after[path] != before.get(path)} == {SIGNED}
        assert after.keys() == before.keys()
        assert SignedStatement.from_data(after[SIGNED]).text == SignedStatement.from_data(before[SIGNED]).text
        assert invoke("resume", "-z", world.fleet.connection, "--reason", "the key was changed").returncode == 0
        world.converge()
    assert (world.publishing.version, world.fleet.calls()) == (revision, calls)


def test_a_fleet_changes_to_signed_publications_host_by_host(world: SignedFleet, host: AgentHost):
    old_agent = world.fleet.host("h2-old", host_name="h2")  # without publishers
    world.publishing.key = None
    world.publish()
    with old_agent.agent(), host.agent():
        world.wait_for_refusal("set publish-key in [sync] for every syncer, and publish again")
        assert not [call for call in world.fleet.calls() if call.startswith("h1 ")]
        world.publishing.key = world.key
        world.publishing.sync(force=True)
        for one in (host, old_agent):
            follow(world, one)
        world.publish("2.0")
        for one in (host, old_agent):
            follow(world, one)


def test_a_publication_of_documents_alone_is_taken_over(world: SignedFleet, host: AgentHost):
    world.publish()
    with host.agent():
        follow(world, host)
        before = world.fleet.calls()
        world.publishing.repository.commit({"README": "nothing for hosts"})
        world.publishing.sync()
        follow(world, host)
        assert world.fleet.calls() == before


def test_keys_that_cannot_be_read_concern_this_host_alone(world: SignedFleet, host: AgentHost):
    world.publish()
    keys = world.publishers.read_bytes()
    world.publishers.unlink()
    with host.agent():
        host.wait_for_error()
        assert f"cannot read publishers {world.publishers}" in host.node["error"]
        assert world.publishing.version is not None
        assert world.fleet.calls() == []
        world.publishers.write_bytes(keys)
        world.wake()
        follow(world, host)


def test_a_signed_strategy_holds_hosts_until_they_are_granted(world: SignedFleet, host: AgentHost):
    world.publishing.push(TREE.format(version="1.0", color="red"), strategy_yaml=EXAMPLE_FILE.read_text())
    world.publishing.sync()
    with host.agent():
        wait_until(lambda: "waits to prepare" in host.status, "the host waits for its rollout")
    world.write(STRATEGY, b"")
    with host.agent():
        world.wait_for_refusal("ZooKeeper does not hold the strategy that was signed")
    assert world.fleet.calls() == []


def test_hosts_of_a_new_fleet_follow_the_signed_initial_revision_and_no_target_beside_it(
    world: SignedFleet, host: AgentHost
):
    world.client.ensure_path(TARGETS)
    world.fleet.set_version("initial")
    world.publishing.register("h9", "another revision")
    with pytest.raises(NotConvergedError):
        world.publish()
    with host.agent():
        follow(world, host)
        assert host.node["version"] == "initial"
        world.write(f"{TARGETS}/h1", json.dumps([EVIL]).encode())
        world.wake()
        world.wait_for_refusal("target h1: expected no node")
    assert world.fleet.calls() == []


def test_holds_and_stops_of_operators_need_no_signature(world: SignedFleet, host: AgentHost):
    def run(verb: str) -> None:
        assert invoke(verb, "-z", world.fleet.connection, "--reason", "rack 7").returncode == 0

    world.publish()
    with host.agent() as agent:
        follow(world, host)
        for verb, version in (("hold", False), ("stop", None)):
            run(verb)
            assert world.publishing.version is version
            agent.wait_until_idle()
            assert "error" not in host.node
            run("resume")
            follow(world, host)
        world.publish("2.0")
        follow(world, host)
        run("stop")
        world.write(f"{TARGETS}/h1", json.dumps([EVIL]).encode())
        agent.wait_until_idle()
        before = world.fleet.calls()
        run("resume")
        world.wait_for_refusal("target h1: expected SHA-256")
        assert world.fleet.calls() == before


def test_one_cycle_and_a_plan_verify_as_well(world: SignedFleet, host: AgentHost):
    world.publish()
    truth, version = world.published_nodes(), world.publishing.version
    world.write(SIGNED, b"")
    for option, status in (("--dry-run", 3), ("--run-once", 1)):
        refused = host.command(option)
        assert (refused.returncode, world.fleet.calls()) == (status, [])
        assert "is not signed: expected a signature" in refused.stderr
    world.restore_nodes(truth)
    world.fleet.set_version(version)
    put_script(host.root, "foo")
    assert host.command("--run-once").returncode == 0
    assert world.fleet.calls() == ["h1 start /who/web 0", "h1 end /who/web 0"]


def test_the_operating_system_of_a_signed_publication_reaches_its_host_and_no_other(
    world: SignedFleet, monkeypatch: pytest.MonkeyPatch
):
    found: dict[str, object] = {}
    read = TrustedPublications.targets

    def targets(self: TrustedPublications, identity: Identity, revision: Revision) -> TrustedTargets:
        verified = read(self, identity, revision)
        found[identity.id] = verified.wanted.system
        return verified

    monkeypatch.setattr(TrustedPublications, "targets", targets)
    system = "/os : system\n  release = '2026-11-20'\n  /deploy\n    /h1\n"
    for host in world.hosts:
        host.packages.releases = {"2026-11-20": (), "2026-12-18": ()}
    world.publishing.push(TREE.format(version="1.0", color="red") + system)
    world.publishing.sync()
    with world.agents():
        world.converge()
    assert found == {"h1": WantedSystem("/os", "2026-11-20"), "h2": None}
    world.publishing.push(TREE.format(version="1.0", color="red") + system.replace("11-20", "12-18"))
    world.publishing.sync()
    with world.agents():
        world.converge()
    assert found == {"h1": WantedSystem("/os", "2026-12-18"), "h2": None}
    world.publishing.push(TREE.format(version="2.0", color="red") + system)
    world.publishing.sync()
    data, _ = world.client.get(f"{TARGETS}/h1")
    world.write(f"{TARGETS}/h1", data.replace(b"2026-11-20", b"2026-12-18"))
    with world.agents():
        world.wait_for_refusal("ZooKeeper does not hold the publication that was signed")

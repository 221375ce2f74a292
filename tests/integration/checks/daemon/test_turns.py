"""Turns of the checks on a real ZooKeeper: what they read, failures, and a leader that is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from support.checks.fleet import CheckedFleet, PokedSystem, check_daemon, check_document, system_document
from support.forks import ForkedProgram
from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.base.errors import ConflictError, TreeError
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.instance import CheckState, InstanceKey
from zkdeployment.checks.rules.workflow import KEPT_VERSIONS
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.views.wanted import CheckError, check_errors, instances_of
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.zookeeper.transactions import Delete

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.zookeeper.session import Session


@contextmanager
def counted(session: Session) -> Iterator[Counter[str]]:
    """Count the reads of single nodes, and the writes, that a session sends."""
    counts: Counter[str] = Counter()
    client: Any = session._client
    call = client._call

    def count(request: Any, result: Any) -> Any:
        name = type(request).__name__
        counts["writes" if name == "TransactionRequest" else "reads"] += len(getattr(request, "reads", ())) or 1
        return call(request, result)

    client._call = count
    try:
        yield counts
    finally:
        client._call = call


def test_a_coordinator_ends_after_the_turn_in_progress(fleet: CheckedFleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zkdeployment.checks.daemon._CLOSING", UNLIMITED)
    begun, ended = threading.Event(), threading.Event()

    def lead() -> None:
        begun.set()
        wait_until(daemon._closed.is_set, "the end of the coordinator")
        ended.set()

    daemon = check_daemon(fleet.session, fleet.clock, lead)
    daemon.start()
    begun.wait()
    daemon.close()
    assert ended.is_set()


def test_a_turn_without_a_change_reads_the_same_few_nodes_for_any_number_of_instances(
    fleet: CheckedFleet,
):
    documents = system_document("nagios1", "http://127.0.0.1:1/") + system_document("nagios2")
    documents += check_document("web", "nagios2", "web")
    many = {f"s{number}": 80 for number in range(30)}
    with fleet.daemon() as daemon:
        seen = []
        for more, services in (("", {"web": 80}), (check_document("all", "nagios2", "s1"), {"web": 80, **many})):
            everything = "".join(check_document(f"c-{name}", "nagios2", name) for name in services)
            fleet.publish(documents + more + everything, **services)
            fleet.report(*services)
            for _ in range(3):
                daemon.run_turn()
            with counted(fleet.session) as counts:
                daemon.run_turn()
            seen.append(counts)
    assert len(fleet.indexed("nagios2", "flagged")) > 60
    assert seen[0] == seen[1]
    assert seen[0]["writes"] == 0
    assert seen[0]["reads"] <= 6


def test_a_change_keeps_the_last_versions_of_an_instance(fleet: CheckedFleet):
    documents = system_document("nagios1") + check_document("tcp", "nagios1")
    fleet.publish(documents, web=80)
    fleet.report("web")
    with fleet.daemon() as daemon:
        daemon.run_turn()
        instances = ZooKeeperCheckInstances(fleet.session)
        (first,) = (found for found in instances.scan() if found.key.host == "h1")
        active = replace(first.configurations[0], version=50, state=CheckState.ACTIVE)
        past = (replace(active, version=number, state=CheckState.AWAITING_DELETION) for number in range(50))
        instances.change([first.id], lambda *_: replace(first, configurations=(*past, active), current=50))
        fleet.publish(documents, web=81)
        fleet.report("web")
        daemon.run_turn()
    kept = [found.version for found in fleet.instances()["h1"].configurations]
    assert kept == list(range(52 - KEPT_VERSIONS, 52))


def test_a_bucket_that_cannot_be_written_delays_no_other_and_is_recorded(fleet: CheckedFleet):
    documents = system_document("nagios1") + check_document("tcp", "nagios1")
    fleet.publish(documents, web=80)
    fleet.report("web")
    keys = {host: InstanceKey("tcp", "/shop/web", 0, host).id for host in fleet.hosts}
    damaged = f"{check_paths.INSTANCES}/{keys['h1'][:3]}"
    fleet.session.ensure(damaged, b"nonsense")
    instances = ZooKeeperCheckInstances(fleet.session)
    with fleet.daemon() as daemon:
        daemon.run_turn()
        assert instances.find([keys["h2"]])[keys["h2"]].newest.state is CheckState.AWAITING_ROLLOUT
        ((beginning, reason),) = instances.unwritten().items()
        assert keys["h1"].startswith(beginning)
        assert reason.startswith(f"{damaged} does not hold check instances: ")
        (wanted,) = (
            found
            for found in instances_of(ZooKeeperCheckSources(fleet.session).read().basis, "tcp")
            if found.id == keys["h1"]
        )
        assert check_errors([wanted], instances.unwritten()) == (CheckError("/shop/web", reason, 1),)
        fleet.session.commit(Delete(damaged))
        daemon.run_turn()
        assert keys["h1"] not in instances.find([keys["h1"]])
        fleet.clock.time += 300
        daemon.run_turn()
        assert instances.find([keys["h1"]])[keys["h1"]].newest.state is CheckState.AWAITING_ROLLOUT
        assert instances.unwritten() == {}


def test_no_instance_is_undeployed_while_ever_more_hosts_register_or_leave(
    fleet: CheckedFleet, monkeypatch: pytest.MonkeyPatch
):
    fleet.publish(system_document("nagios1") + check_document("tcp", "nagios1"), web=80)
    fleet.report("web")

    def leave() -> None:
        fleet.publishing.client.delete("/hosts/h1")
        fleet.session.sync()
        fleet.session.settle_watches()

    with fleet.daemon() as daemon:
        daemon.run_turn()
        before = fleet.instances()
        daemon.run_turn()  # no inventory is awaited any more
        for change in (leave, lambda: fleet.report("web", hosts=["h1"])):
            change()
            with monkeypatch.context() as patch:
                patch.setattr("zkdeployment.zookeeper.shared_nodes._ROUNDS", 1)  # the lists, but no further nodes
                with pytest.raises(ConflictError, match="hosts registered or left while all hosts were read"):
                    daemon.run_turn()
            daemon.run_turn()
            assert fleet.instances() == before


def test_instances_stay_unchanged_while_their_attribute_has_too_many_values(fleet: CheckedFleet):
    documents = system_document("nagios1") + check_document("tcp", "nagios1").replace(
        "{package: web}", "{attribute: port}"
    )
    instances = ZooKeeperCheckInstances(fleet.session)
    with fleet.daemon() as daemon:
        seen = []
        for ports in ([80, 81], [*range(1001)], [81, 82]):
            fleet.publish(documents, web=ports)
            fleet.report("web")
            daemon.run_turn()
            found = {(found.key.attributes[0][1], found.deleted) for found in instances.scan()}
            seen.append(sorted(found))
    assert seen[0] == seen[1] == [(80, False), (81, False)]
    assert seen[2] == [(80, True), (81, False), (82, False)]


def test_hosts_are_not_followed_in_a_fleet_without_checks(fleet: CheckedFleet):
    documents = system_document("nagios1") + check_document("tcp", "nagios1")
    fleet.publish(system_document("nagios1"), web=80)
    fleet.report("web")
    with fleet.daemon() as daemon:
        daemon.run_turn()
        fleet.report("web")  # every host writes to its node
        with counted(fleet.session) as counts:
            daemon.run_turn()
        assert counts["reads"] <= 6
        fleet.publish(documents, web=80)
        fleet.report("web")
        daemon.run_turn()
        assert fleet.states() == {"h1": ["awaiting_rollout"], "h2": ["awaiting_rollout"]}
        fleet.publish(system_document("nagios1"), web=80)
        daemon.run_turn()
        assert fleet.states() == {"h1": ["awaiting_deletion"], "h2": ["awaiting_deletion"]}


def test_a_push_that_changes_one_service_reads_and_writes_only_its_instances(fleet: CheckedFleet):
    services = {f"s{number}": 80 for number in range(20)}
    documents = system_document("nagios1") + "".join(check_document(name, "nagios1", name) for name in services)
    fleet.publish(documents, **services)
    fleet.report(*services)
    with fleet.daemon() as daemon:
        daemon.run_turn()
        before = {path: fleet.session.get(path) for path in buckets(fleet)}
        assert len(before) > 30
        fleet.publish(documents, **{**services, "s7": 81})
        daemon.run_turn()
        changed = [path for path, node in before.items() if fleet.session.get(path) != node]
        assert len(changed) == 2  # one on each host


def buckets(fleet: CheckedFleet) -> list[str]:
    """Return the paths of all buckets."""
    return [f"{check_paths.INSTANCES}/{name}" for name in fleet.session.children(check_paths.INSTANCES) or ()]


def test_a_turn_that_fails_is_reported_once_and_tried_again_after_growing_pauses(
    fleet: CheckedFleet, monkeypatch: pytest.MonkeyPatch
):
    def failing(_: ZooKeeperCheckInstances) -> list[str]:
        raise TreeError("the index is damaged")

    fleet.publish(system_document("nagios1") + check_document("tcp", "nagios1"), web=80)
    fleet.report("web")
    with fleet.daemon() as daemon:
        assert daemon.run_cycle() > 0
        with capture_logs() as log, monkeypatch.context() as patched:
            patched.setattr(ZooKeeperCheckInstances, "due", failing)
            assert [daemon.run_cycle() for _ in range(3)] == [2.0, 4.0, 8.0]
        assert [line["event"] for line in log if line["log_level"] == "error"] == ["checks-failed"]
        assert daemon.run_cycle() == 20.0
        assert fleet.states() == {"h1": ["awaiting_rollout"], "h2": ["awaiting_rollout"]}


def test_a_coordinator_that_does_not_lead_runs_no_turn(fleet: CheckedFleet):
    fleet.publish(system_document("nagios1") + check_document("tcp", "nagios1"), web=80)
    with fleet.daemon() as daemon:
        daemon._lead = lambda: None
        assert daemon.run_cycle() == 1.0
    assert fleet.states() == {}


def test_a_second_coordinator_continues_where_a_killed_one_ended(fleet: CheckedFleet, tmp_path: Path):
    config = tmp_path / "coordinator.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {fleet.publishing.zookeeper}\nroot = {tmp_path}\n[checks]\ninterval = 0.5\n"
    )
    argv = ["coordinate", str(config)]
    with PokedSystem() as nagios:
        fleet.publish(system_document("nagios1", nagios.url) + check_document("tcp", "nagios1"), web=80)
        fleet.report("web")
        killed = ForkedProgram(argv, os.environ | {VARIABLE: "after:check@2=kill"})
        try:
            wait_until(lambda: read_leader(fleet.session) is not None, "a coordinator leads")
            second = ForkedProgram(argv)
            try:
                assert killed.wait() == -signal.SIGKILL
                wait_until(
                    lambda: {poke["uuid"] for poke in nagios.pokes} == {i.id for i in fleet.instances().values()},
                    "all instances are poked",
                )
                wait_until(lambda: not fleet.indexed("nagios1", "flagged"), "the flags are cleared")
                assert fleet.states() == {"h1": ["awaiting_rollout"], "h2": ["awaiting_rollout"]}
                second.send_signal(signal.SIGTERM)
                assert second.wait() == 0
            finally:
                second.kill()
                second.wait()
        finally:
            killed.kill()
            killed.wait()

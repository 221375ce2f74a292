"""Coordinators on a real ZooKeeper, with agents that carry out each grant immediately."""

import threading
from dataclasses import replace
from unittest import mock

import pytest
from structlog.testing import capture_logs

from support.fleets.coordinated import CoordinatedFleet
from support.metrics import read_metrics
from support.strategies import EXAMPLE_HOSTS, example, group, plain_hosts, strategy
from support.waiting import wait_until
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ConflictError, LockLostError, RestartError, UnreachableError
from zkdeployment.base.host import Facts, Identity
from zkdeployment.base.stop import COORDINATOR, Stop
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.publishing.store.cluster import read_stops
from zkdeployment.strategies.permission import Grant, Permission, Phase
from zkdeployment.strategies.progress import supersede
from zkdeployment.strategies.state import Directive, Ending
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, RolloutResult
from zkdeployment.strategies.store.records import encode_state, read_leader, read_state
from zkdeployment.strategies.strategy import ABSENT_AFTER, ALL_HOSTS, Pace, ParallelLimit, Selector
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Delete, Set


@pytest.fixture
def fleet(zookeeper):
    with Session(zookeeper) as session:
        yield CoordinatedFleet(zookeeper, session)


def run_until_baking(fleet, daemon):
    """Run cycles of the coordinator and the hosts until the bake time of the only group begins."""
    for _ in range(4):
        daemon.run_cycle()
        fleet.work() if fleet.session.get(paths.ROLLOUTS) else None
    daemon.run_cycle()
    assert fleet.running.active_phase.baking_since is not None


def run_cycles(*coordinators, times=3):
    for _ in range(times):
        for daemon in coordinators:
            daemon.run_cycle()


class TestRolloutOfGroups:
    def test_the_example_is_rolled_out_group_by_group(self, fleet):
        fleet.register(EXAMPLE_HOSTS)
        fleet.publish("r1", example())
        with fleet.coordinator() as daemon:
            over = fleet.run(daemon.coordinator)
        assert over.rollout.result is RolloutResult.SUCCESS
        groups = list(dict.fromkeys(name for name, _, _ in fleet.done))
        assert groups == ["monitoring-nodes", "ntp-node", "control-nodes", "compute-nodes-1", "compute-nodes-2"]
        assert len(fleet.done) == len(set(fleet.done)) == 2 * len(EXAMPLE_HOSTS)
        assert fleet.version == "r1"
        assert fleet.grants() == {}

    def test_a_failed_critical_group_stops_the_fleet_with_the_report_as_the_reason(self, fleet):
        fleet.register(EXAMPLE_HOSTS)
        fleet.failing = {("deploy", "ctl1"), ("deploy", "ctl2")}
        fleet.publish("r1", example())
        with fleet.coordinator() as daemon:
            over = fleet.run(daemon.coordinator)
        assert over.rollout.result is RolloutResult.FAILED
        assert fleet.version is None
        (stop,) = read_stops(fleet.session)
        assert stop.by == "the coordinator"
        counts = "8 hosts: 3 succeeded, 2 failed, 3 not started"
        assert f"failed; {counts}; critical group control-nodes failed (deploy: 1 of 3 hosts succ" in stop.reason
        assert "failed: ctl1, ctl2; not started: one1, one2" in stop.reason
        assert fleet.grants()["ctl1"] == Grant("control-nodes", None, "boom")

    def test_a_failure_in_a_non_critical_group_is_reported_without_a_stop(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.failing = {("prepare", "a")}
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            over = fleet.run(daemon.coordinator)
        assert over.rollout.result is RolloutResult.PARTIAL
        assert over.errors == {"a": "boom"}
        assert fleet.version == "r1"

    def test_a_phase_that_exceeds_its_timeout_fails_and_its_grants_are_withdrawn(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.silent = {"b"}
        fleet.publish("r1", strategy(replace(group("x", hosts="ab"), pace=Pace(prepare_timeout=60)), group("y")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon, times=2)
            fleet.work()
            assert daemon.run_cycle() == 15  # the regular pause: the timeout is further away
            fleet.clock.time += 50
            assert daemon.run_cycle() == 10
            fleet.clock.time += 10
            daemon.run_cycle()
            assert fleet.grants()["b"].phase is None
            over = fleet.run(daemon.coordinator)
        assert over.rollout.progress["x"].verdict is GroupVerdict.FAILED
        assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.FAILURE}

    def test_a_phase_does_not_time_out_while_no_coordinator_leads(self, fleet):
        fleet.register(plain_hosts("ab"))
        pace = Pace(max_parallel=ParallelLimit(1), prepare_timeout=60, progress_deadline=60)
        fleet.publish("r1", strategy(replace(group("x"), pace=pace)))
        with fleet.coordinator("one") as daemon:
            run_cycles(daemon, times=2)
        fleet.work()
        fleet.clock.time += 3600
        with fleet.coordinator("two") as other_daemon:
            assert fleet.run(other_daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def test_an_agent_that_stays_absent_fails(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.silent = {"b"}
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon)
            fleet.leave("b")
            run_cycles(daemon)
            fleet.wait(daemon.coordinator, ABSENT_AFTER)
            over = fleet.run(daemon.coordinator)
        assert over.errors == {"b": "its agent has been absent for 300 s"}

    def test_a_host_that_shows_an_error_during_the_bake_time_fails(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(replace(group("x"), pace=Pace(bake_time=60))))
        with fleet.coordinator() as daemon:
            run_until_baking(fleet, daemon)
            fleet.change(f"{paths.HOSTS}/b", error="boom")
            fleet.clock.time += 60
            over = fleet.run(daemon.coordinator)
        assert over.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.FAILURE}

    @pytest.mark.parametrize(
        ("host", "version"),
        [
            ({"step": "deploy /z/one 0"}, "r1"),
            ({"step": "deploy /z/one 0", "error": "boom"}, None),
            ({"step": "waits to prepare: rollout 1-1"}, None),
        ],
    )
    def test_a_host_that_runs_the_steps_that_it_lacked_during_the_bake_time_does_not_fail_unless_it_waits(
        self, fleet, host, version
    ):
        fleet.register(plain_hosts("ab"))
        pace = Pace(bake_time=60)
        fleet.publish("r1", strategy(replace(group("x", critical=True, maximum_failed=0), pace=pace)))
        with fleet.coordinator() as daemon:
            run_until_baking(fleet, daemon)
            lacking = {"p1/store/v1/shop": {"services": ["/z/one"]}}
            fleet.change(f"{paths.HOSTS}/b", version=None, sequence=0, lacking=lacking, **host)
            fleet.wait(daemon.coordinator, 60)
        assert fleet.running.ended is not None
        assert fleet.version == version

    def test_late_hosts_and_hosts_known_only_by_inventory_or_target_join_the_rollout(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.register(plain_hosts("b"), version="r1")
        fleet.session.ensure(paths.INVENTORY)
        fleet.session.commit(Create(f"{paths.INVENTORY}/c", encode({})))
        fleet.session.ensure(f"{paths.TARGETS}/app9.example.com")
        fleet.publish("r1", strategy(group("x")))
        fleet.session.ensure(f"{paths.TARGETS}/app9.example.com")
        fleet.session.ensure(f"{paths.TARGETS}/some-role")
        with fleet.coordinator() as daemon:
            over = fleet.run(daemon.coordinator)
            assert over.rollout.hosts == {
                "a": HostProgress.SUCCESS,
                "app9.example.com": HostProgress.NOT_STARTED,
                "b": HostProgress.SUCCESS,
                "c": HostProgress.NOT_STARTED,
            }
            fleet.register({"i-9": Facts(name="app9.example.com"), "c": Facts()})
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
            assert fleet.running.rollout.hosts == dict.fromkeys(["a", "b", "c", "i-9"], HostProgress.SUCCESS)
            assert {host for _, _, host in fleet.done} == {"a", "c", "i-9"}

    def test_a_host_that_has_steps_for_a_revision_published_again_gets_a_grant_after_it_counted_as_done(
        self, fleet
    ):
        fleet.register(plain_hosts("ab"), version="r1")
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon)
            assert fleet.running.ending is Ending.COMPLETED
            fleet.change(f"{paths.HOSTS}/b", version=None, sequence=0)
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
            assert fleet.running.rollout.hosts == dict.fromkeys("ab", HostProgress.SUCCESS)
        assert fleet.done == [("x", "prepare", "b"), ("x", "deploy", "b")]

    @pytest.mark.parametrize("dies_at", [None, "before:clear", "after:clear", "before:record", "after:record"])
    def test_a_host_that_was_reinstalled_after_its_success_deploys_again(self, fleet, dies_at):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x")))
        armed = []

        def reach(place):
            if place in armed:
                armed.clear()
                raise UnreachableError("the coordinator is gone")

        with fleet.coordinator("one", reach) as daemon:
            fleet.run(daemon.coordinator)
            fleet.leave("a")
            daemon.run_cycle()
            fleet.register(plain_hosts("a"))
            armed += [dies_at]
            fleet.done.clear()
            daemon.run_cycle()
        with fleet.coordinator("two") as other_daemon:
            for _ in range(5):
                other_daemon.run_cycle()
                fleet.work()
            assert fleet.running.rollout.hosts == {"a": HostProgress.SUCCESS, "b": HostProgress.SUCCESS}
        assert fleet.done == [("x", "prepare", "a"), ("x", "deploy", "a")]

    def test_a_host_without_pending_phases_is_read_once_after_its_success_and_then_once_a_minute(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            fleet.run(daemon.coordinator)
            daemon.run_cycle()
            read, get_many = [], Session.get_many

            def recording(session, wanted):
                listed = [*wanted]
                read.extend(path for path in listed if path.startswith(f"{paths.HOSTS}/"))
                return get_many(session, listed)

            with mock.patch.object(Session, "get_many", recording):
                daemon.run_cycle()
                assert read == []
                fleet.wait(daemon.coordinator, 60)
            assert read == [f"{paths.HOSTS}/a", f"{paths.HOSTS}/b"]

    @pytest.mark.parametrize(("step", "done"), [("deploy /z/one 0", 0), ("waits to prepare: rollout 1-1", 2)])
    def test_a_host_that_runs_the_steps_that_it_lacked_is_granted_nothing_unless_it_waits(self, fleet, step, done):
        fleet.register(plain_hosts("ab"))
        pace = Pace(prepare_timeout=60)
        fleet.publish("r1", strategy(replace(group("x", critical=True, maximum_failed=0), pace=pace)))
        with fleet.coordinator() as daemon:
            fleet.run(daemon.coordinator)
            fleet.wait(daemon.coordinator, 60)
            fleet.done.clear()
            lacking = {"p1/store/v1/shop": {"services": ["/z/one"]}}
            fleet.change(f"{paths.HOSTS}/b", version=None, sequence=0, lacking=lacking, step=step)
            fleet.wait(daemon.coordinator, 75)
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
            fleet.wait(daemon.coordinator, 120)
        assert len(fleet.done) == done
        assert fleet.version == "r1"

    def test_a_host_that_gives_its_revision_up_after_the_end_of_its_rollout_gets_a_grant(self, fleet):
        """As a host does after a drain that ended, or after steps that it lacked."""
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            fleet.run(daemon.coordinator)
            fleet.wait(daemon.coordinator, 60)
            fleet.done.clear()
            fleet.change(f"{paths.HOSTS}/b", version=None, sequence=0)
            fleet.wait(daemon.coordinator, 60)
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
        assert fleet.done == [("x", "prepare", "b"), ("x", "deploy", "b")]

    def test_a_late_failure_that_violates_the_criteria_of_a_critical_group_stops_the_fleet(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", strategy(group("x", critical=True, maximum_failed=0)))
        fleet.failing = {("deploy", "b")}
        with fleet.coordinator() as daemon:
            assert fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS
            assert fleet.version == "r1"
            fleet.clock.time += 86400
            fleet.register(plain_hosts("b"))
            for _ in range(5):
                daemon.run_cycle()
                fleet.work()
        assert fleet.version is None
        (stop,) = read_stops(fleet.session)
        assert "critical group x failed (late hosts: 1 of 2 hosts failed, expected at most 0)" in stop.reason
        assert stop.time == pytest.approx(fleet.clock.now(), abs=60)

    @pytest.mark.parametrize(("again", "version", "stops"), [(False, None, 1), (True, "r1", 0)])
    def test_a_failed_rollout_stops_only_the_publication_that_it_deploys(self, fleet, again, version, stops):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon)
            if again:
                fleet.publish("r1", ALL_HOSTS)
            reason = Stop("?", "?", "r1", "rollout", "critical group x failed", 1.0, by=COORDINATOR)
            daemon.store.record(fleet.running, reason)
        assert fleet.version == version
        assert len(read_stops(fleet.session)) == stops

    def test_an_abort_withdraws_the_grants_of_late_hosts(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", strategy(group("x")))
        fleet.silent = {"b"}
        with fleet.coordinator() as daemon:
            fleet.run(daemon.coordinator)
            fleet.register(plain_hosts("b"))
            run_cycles(daemon)
            assert set(fleet.grants()) == {"b"}
            fleet.act(Directive.ABORT)
            run_cycles(daemon)
        assert fleet.grants() == {}
        assert fleet.version is None

    def test_an_agent_that_restarts_at_the_start_of_a_rollout_does_not_fail(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.session.ensure(paths.INVENTORY)
        fleet.session.commit(Create(f"{paths.INVENTORY}/b", encode({})))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator() as daemon:
            fleet.run(daemon.coordinator)
            fleet.leave("b")
            daemon.run_cycle()
            fleet.publish("r2", ALL_HOSTS)
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
            assert fleet.running.revision == "r2"
            assert fleet.running.ended is None
            fleet.register(plain_hosts("b"), version="r1")
            assert fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def test_without_a_strategy_the_coordinator_does_nothing(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", None)
        with fleet.coordinator() as daemon:
            assert daemon.run_cycle() == 15
        assert fleet.session.get(paths.ROLLOUTS) is None


class TestOperators:
    def test_a_manual_group_waits_for_promotion(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", strategy(replace(group("x"), pace=Pace(manual=True))))
        with fleet.coordinator() as daemon:
            run_cycles(daemon)
            assert fleet.running.waiting == "x waits for 'zkdeployment rollout promote x'"
            fleet.act(Directive.PROMOTE, "x")
            assert fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def test_a_pause_holds_the_rollout_until_a_resume(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x", hosts="a"), group("y", hosts="b")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon, times=2)
            fleet.act(Directive.PAUSE)
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
            assert fleet.done == [("x", "prepare", "a")]
            assert fleet.running.paused.reason == "because"
            fleet.act(Directive.RESUME)
            assert fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def test_an_abort_stops_the_fleet_and_a_resume_starts_another_attempt(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x", hosts="a"), group("y", hosts="b")))
        with fleet.coordinator() as daemon:
            for _ in range(5):
                daemon.run_cycle()
                fleet.work() if fleet.session.get(paths.ROLLOUTS) else None
            fleet.act(Directive.ABORT, reason="it is on fire")
            run_cycles(daemon)
            assert fleet.running.ending is Ending.ABORTED
            assert fleet.version is None
            (stop,) = read_stops(fleet.session)
            assert "aborted (rollout abort by ann@ops: it is on fire)" in stop.reason
            first = fleet.current
            ZooKeeperClusterControl(fleet.session).resume(Act("ann@ops", "resume", "it is out", fleet.clock.time))
            over = fleet.run(daemon.coordinator)
            assert (over.attempt, over.rollout.result) == (2, RolloutResult.SUCCESS)
            assert fleet.done.count(("x", "prepare", "a")) == 1  # the host already has the revision
            assert fleet.session.children(paths.rollout_path(first)) == []
            assert read_state(fleet.session, first).ending is Ending.ABORTED

    def test_the_next_attempt_completes_an_aborted_bake(self, fleet):
        fleet.register(plain_hosts("ab"))
        baked = replace(group("x", hosts="a"), pace=Pace(bake_time=60))
        fleet.publish("r1", strategy(baked, group("y", "x", hosts="b")))
        with fleet.coordinator() as daemon:
            for _ in range(6):
                daemon.run_cycle()
                fleet.work() if fleet.session.get(paths.ROLLOUTS) else None
            assert fleet.running.active_phase.baking_since is not None
            fleet.act(Directive.ABORT)
            run_cycles(daemon)
            ZooKeeperClusterControl(fleet.session).resume(Act("ann@ops", "resume", "go", fleet.clock.time))
            run_cycles(daemon, times=5)
            assert fleet.running.attempt == 2
            assert (fleet.running.active_phase.task.group, fleet.running.active_phase.baking_since) == (
                "x",
                fleet.clock.time,
            )
            fleet.wait(daemon.coordinator, 60)
            assert fleet.run(daemon.coordinator).rollout.order == ("x", "y")

    def test_an_abort_between_the_last_read_and_the_end_of_the_rollout_is_obeyed(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", ALL_HOSTS)
        asks = []

        def reach(place):
            if place == "before:record" and asks:
                fleet.act(asks.pop())

        with fleet.coordinator("one", reach) as daemon:
            run_cycles(daemon, times=2)
            for _ in Phase:
                fleet.work()
                asks += [Directive.ABORT] * (len(fleet.done) == len(Phase))
                daemon.run_cycle()
            assert fleet.running.ended is None
            daemon.run_cycle()
            assert fleet.running.ending is Ending.ABORTED
            assert fleet.version is None

    def test_no_grants_are_written_while_the_fleet_is_stopped(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x", hosts="a"), group("y", hosts="b")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon, times=2)
            ZooKeeperClusterControl(fleet.session).stop(Act("ann@ops", "stop", "wait", fleet.clock.time))
            for _ in range(4):
                daemon.run_cycle()
                fleet.work()
            assert fleet.done == [("x", "prepare", "a")]
            ZooKeeperClusterControl(fleet.session).resume(Act("ann@ops", "resume", "go", fleet.clock.time))
            assert fleet.run(daemon.coordinator).attempt == 1

    def test_an_abort_does_not_change_a_version_that_was_set_by_hand(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", strategy(group("x")))
        with fleet.coordinator() as daemon:
            run_cycles(daemon)
            fleet.change(paths.HOSTS, version="by-hand")
            fleet.act(Directive.ABORT)
            run_cycles(daemon)
            assert fleet.running.ending is Ending.ABORTED
            assert fleet.version == "by-hand"


class TestPublications:
    def test_a_newer_publication_replaces_a_rollout(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator() as daemon:
            run_cycles(daemon, times=2)
            fleet.work()
            first = fleet.current
            fleet.publish("r2", ALL_HOSTS)
            over = fleet.run(daemon.coordinator)
            assert (over.revision, over.rollout.result) == ("r2", RolloutResult.SUCCESS)
            assert read_state(fleet.session, first).ending is Ending.SUPERSEDED
            assert fleet.session.children(paths.rollout_path(first)) == []

    def test_a_publication_without_a_strategy_ends_the_rollout_and_withdraws_its_grants(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator() as daemon:
            run_cycles(daemon, times=2)
            assert len(fleet.grants()) == 2
            fleet.publish("r2", None)
            run_cycles(daemon)
            assert fleet.running.ending is Ending.SUPERSEDED
            assert fleet.grants() == {}

    def test_final_reports_are_deleted_when_the_history_drops_their_publication(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator() as daemon:
            first = fleet.run(daemon.coordinator)
            fleet.publish("r2", ALL_HOSTS)
            second = fleet.run(daemon.coordinator)
            assert fleet.session.children(paths.ROLLOUTS) == [first.id, second.id]
            fleet.session.commit(Delete(paths.history_path(first.sequence)))
            fleet.publish("r3", ALL_HOSTS)
            third = fleet.run(daemon.coordinator)
        assert fleet.session.children(paths.ROLLOUTS) == [second.id, third.id]

    def test_an_unreadable_state_is_reported_and_the_next_publication_starts_a_new_rollout(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator() as daemon:
            run_cycles(daemon, times=2)
            fleet.session.commit(Set(paths.rollout_path(fleet.current), b"{}"))
            assert daemon.run_cycle() == 2
            fleet.publish("r2", ALL_HOSTS)
            assert fleet.run(daemon.coordinator).revision == "r2"

    def test_an_unreadable_state_of_an_earlier_publication_is_logged_once(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator() as daemon, capture_logs() as logs:
            run_cycles(daemon, times=2)
            fleet.session.commit(Set(paths.rollout_path(fleet.current), b"{}"))
            fleet.publish("r2", None)
            run_cycles(daemon)
        assert [entry["event"] for entry in logs].count("rollout-unreadable") == 1


class KilledError(BaseException):
    """The coordinator was killed."""


class Death:
    """Kills a coordinator right after its first write."""

    def __init__(self) -> None:
        self.place = ""

    def __call__(self, place: str) -> None:
        if place.startswith("after:"):
            self.place = place
            raise KilledError


GROUPS = strategy(
    group("x", hosts="ab", maximum_failed=1), group("y", "x", hosts="c", critical=True, percent_successful=100)
)


def test_coordinators_that_are_killed_after_each_write_reach_the_same_result(fleet):
    fleet.register(plain_hosts("abc"))
    fleet.failing = {("prepare", "a"), ("deploy", "c")}
    fleet.publish("r1", GROUPS)
    places = []
    while "after:begin" not in places or fleet.running.ended is None:
        death = Death()
        try:
            with fleet.coordinator(f"number {len(places)}", death) as daemon:
                fleet.run(daemon.coordinator)
        except KilledError:
            places.append(death.place)
    with fleet.coordinator("the last one") as daemon:
        run_cycles(daemon)
    assert places.count("after:begin") == 1
    assert places.count("after:record") == 5  # one write judges a phase and begins the next phase
    assert places.count("after:grant") == 4
    assert fleet.running.rollout.result is RolloutResult.FAILED
    assert fleet.running.errors == {"a": "boom", "c": "boom"}
    assert fleet.running.rollout.hosts == dict.fromkeys("ac", HostProgress.FAILURE) | {"b": HostProgress.SUCCESS}
    assert fleet.version is None
    assert fleet.done == [
        ("x", "prepare", "a"),
        ("x", "prepare", "b"),
        ("x", "deploy", "b"),
        ("y", "prepare", "c"),
        ("y", "deploy", "c"),
    ]
    assert {host: grant.phase for host, grant in fleet.grants().items()} == {"a": None, "c": None}


def test_grants_of_a_failed_rollout_are_void_after_a_resume_although_the_coordinator_was_killed(fleet):
    fleet.register(plain_hosts("ab"))
    fleet.publish("r1", ALL_HOSTS)

    def die_at_the_end(place):
        if place == "after:record" and fleet.running.ended is not None:
            raise KilledError

    with fleet.coordinator("one", die_at_the_end) as daemon:
        run_cycles(daemon, times=2)
        fleet.act(Directive.ABORT)
        with pytest.raises(KilledError):
            run_cycles(daemon)
    ZooKeeperClusterControl(fleet.session).resume(Act("ann@ops", "resume", "go", fleet.clock.time))
    assert {grant.phase for grant in fleet.grants().values()} == {Phase.PREPARE}
    assert ZooKeeperFleet(fleet.session).permission(1, Identity("a", "a")) == Permission()
    with fleet.coordinator("two") as other_daemon:
        assert fleet.run(other_daemon.coordinator).attempt == 2
    assert ZooKeeperFleet(fleet.session).permission(1, Identity("a", "a")).rollout == "1-2"


class TestLead:
    def test_one_of_two_coordinators_leads_and_the_other_takes_over(self, fleet):
        fleet.register(plain_hosts("abc"))
        fleet.publish("r1", GROUPS)
        with fleet.coordinator("one") as daemon, fleet.coordinator("two") as other_daemon:
            assert daemon.store.lead.acquire(5)
            assert read_leader(fleet.session) == "one"
            assert not other_daemon.store.lead.acquire(0.1)
            run_cycles(daemon, times=2)
            with pytest.raises(LockLostError):  # the other coordinator holds the lead
                other_daemon.store.grant(fleet.running, {})
            fleet.work()
            daemon.store.lead.release()
            assert fleet.run(other_daemon.coordinator).rollout.result is RolloutResult.SUCCESS
            assert read_leader(fleet.session) == "two"

    def test_a_coordinator_that_regains_the_lead_reads_all_hosts_again(self, fleet):
        red, blue = Facts(tags=frozenset({"red"})), Facts(tags=frozenset({"blue"}))
        fleet.register({"a": red, "b": Facts()})
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator("one") as daemon, fleet.coordinator("two") as other_daemon:
            fleet.run(daemon.coordinator)
            daemon.store.lead.release()
            fleet.leave("a")
            fleet.silent = {"b"}
            web = replace(group("web"), selectors=(Selector(tags=frozenset({"blue"})),))
            fleet.publish("r2", strategy(group("x", hosts="b"), web))
            run_cycles(other_daemon, times=2)
            other_daemon.store.lead.release()
            fleet.register({"a": blue})
            run_cycles(daemon, times=2)
            assert fleet.running.rollout.members == {"x": {"b"}, "web": {"a"}}

    def test_a_coordinator_without_its_lock_node_writes_nothing(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator("one") as daemon:
            run_cycles(daemon, times=2)
            (place,) = fleet.session.children(paths.COORDINATORS)
            state, before = fleet.running, fleet.session.get(paths.rollout_path(fleet.current))
            fleet.session.commit(Delete(f"{paths.COORDINATORS}/{place}"))
            stamp = daemon.store.snapshot().published.stamp
            with pytest.raises(LockLostError):
                daemon.store.record(supersede(state, 5.0))
            with pytest.raises(LockLostError):
                daemon.store.grant(state, {})
            with pytest.raises(LockLostError):
                daemon.store.begin(replace(state, attempt=9), stamp)
            assert fleet.session.get(paths.rollout_path(fleet.current)) == before
            assert len(fleet.grants()) == 2
            # The coordinator queues again.
            assert fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def test_a_rollout_of_a_replaced_publication_does_not_start(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator("one") as daemon:
            run_cycles(daemon, times=2)
            state, stamp = fleet.running, daemon.store.snapshot().published.stamp
            fleet.publish("r2", ALL_HOSTS)
            with pytest.raises(ConflictError):
                daemon.store.begin(replace(state, attempt=2), stamp)
            assert fleet.current == state.id

    def test_a_successor_does_not_wait_for_grants_that_its_predecessor_did_not_write(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", ALL_HOSTS)
        with fleet.coordinator("one") as daemon:
            run_cycles(daemon, times=2)
        for host in fleet.grants():
            fleet.session.commit(Delete(paths.grant_path(fleet.current, host)))
        with fleet.coordinator("two") as other_daemon:
            other_daemon.run_cycle()
            assert {host: grant.phase for host, grant in fleet.grants().items()} == dict.fromkeys(
                "ab", Phase.PREPARE
            )

    def test_a_coordinator_runs_unattended_and_releases_the_lead_at_its_end(self, fleet):
        fleet.register(plain_hosts("ab"))
        with fleet.coordinator("one", live=True) as daemon:
            thread = threading.Thread(target=daemon.coordinator.run)
            thread.start()
            try:
                wait_until(lambda: read_leader(fleet.session) == "one", "it leads")
                fleet.publish("r1", ALL_HOSTS)
                wait_until(lambda: read_state(fleet.session) is not None, "it begins")

                def is_over():
                    fleet.work()
                    return fleet.running.ended is not None

                wait_until(is_over, "the rollout is over")
            finally:
                daemon.control.stop()
                thread.join()
            assert not thread.is_alive()
            assert read_leader(fleet.session) is None
            assert fleet.running.rollout.result is RolloutResult.SUCCESS


class TestLog:
    def test_the_log_has_all_transitions_and_the_final_report(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.failing = {("deploy", "a")}
        fleet.publish("r1", strategy(group("x", hosts="a", percent_successful=100), group("y", "x", hosts="b")))
        with fleet.coordinator() as daemon, capture_logs() as logs:
            fleet.run(daemon.coordinator)
        assert [entry["event"] for entry in logs] == [
            "lead-acquired",
            "rollout-begun",
            "phase-begun",
            "phase-judged",
            "phase-begun",
            "host-failed",
            "phase-judged",
            "group-judged",
            "group-judged",
            "rollout-ended",
        ]
        assert {entry["rollout"] for entry in logs[1:]} == {"1-1"}
        judged = [(entry["group"], entry["reason"]) for entry in logs if entry["event"] == "group-judged"]
        assert judged == [
            ("x", "deploy: 0 of 1 hosts successful (0 %), expected at least 100 %"),
            ("y", "not attempted: x failed"),
        ]
        assert logs[-1]["result"] == "success with failures"
        assert logs[-1]["report"].startswith(
            "rollout 1-1 of r1: success with failures; 2 hosts: 1 failed, 1 not started; group x failed"
        )

    def test_selectors_that_match_no_known_host_are_logged_at_the_start_of_a_rollout(self, fleet):
        fleet.register(plain_hosts("ab"))
        fleet.publish("r1", strategy(group("x", hosts="a"), group("y", hosts="bc"), group("z", hosts="c")))
        with fleet.coordinator() as daemon, capture_logs() as logs:
            run_cycles(daemon)
        warnings = [entry["reason"] for entry in logs if entry["event"] == "selector-unmatched"]
        assert [warning.partition(" (")[0] for warning in warnings] == [
            "selector 1 of group z matches no known host"
        ]

    def test_a_persisting_error_is_logged_once(self, fleet):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", ALL_HOSTS)
        data = fleet.session.get(paths.STRATEGY).data
        fleet.session.commit(Set(paths.STRATEGY, b"{}"))
        with fleet.coordinator() as daemon, capture_logs() as logs:
            assert [daemon.run_cycle(), daemon.run_cycle(), daemon.run_cycle()] == [2, 2, 2]
            (message,) = [entry for entry in logs if entry["event"] == "coordination-failed"]
            assert "'zkdeployment sync --force' writes it anew" in message["reason"]
            fleet.session.commit(Set(paths.STRATEGY, b""))
            assert [daemon.run_cycle(), daemon.run_cycle()] == [0, 0]
            assert [entry["event"] for entry in logs].count("write-conflicted") == 1
            fleet.session.commit(Set(paths.STRATEGY, data))
            assert fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def test_an_unexpected_error_is_reported_and_another_coordinator_takes_the_lead(
        self, fleet, monkeypatch, tmp_path
    ):
        fleet.register(plain_hosts("a"))
        fleet.publish("r1", ALL_HOSTS)
        metrics = tmp_path / "coordinator.prom"
        with fleet.coordinator("one", metrics=metrics) as daemon, fleet.coordinator("two") as other_daemon:
            with monkeypatch.context() as broken, capture_logs() as logs:
                broken.setattr(daemon.store, "snapshot", mock.Mock(side_effect=TypeError("no len() of a float")))
                assert [daemon.run_cycle() for _ in range(5)] == [2, 4, 8, 15, 15]
            (failure,) = [entry for entry in logs if entry["event"] == "coordination-failed"]
            assert failure["reason"] == "unexpected TypeError: no len() of a float; see the log"
            assert isinstance(failure["exc_info"], TypeError)
            assert read_leader(fleet.session) is None
            daemon.control.stop()
            daemon.coordinator.run()  # writes the metrics at its end
            looks = read_metrics(metrics.read_text())["coordinator_looks_total"]
            assert looks["coordination-failed",] == 5
            assert fleet.run(other_daemon.coordinator).rollout.result is RolloutResult.SUCCESS
        with fleet.coordinator("one") as daemon:
            assert daemon.run_cycle() == 0

    def test_a_coordinator_without_zookeeper_retries_and_ends_if_its_client_cannot_be_replaced(self, fleet):
        trouble = [
            UnreachableError("nobody answers"),
            UnreachableError("nobody answers"),
            RestartError("start again"),
        ]

        def connect():
            raise trouble.pop(0)

        with fleet.coordinator(connect=connect) as daemon, capture_logs() as logs:
            assert [daemon.run_cycle(), daemon.run_cycle()] == [2, 2]
            with pytest.raises(RestartError):
                daemon.run_cycle()
        assert [entry["event"] for entry in logs] == ["zookeeper-unreachable"]


def test_many_reports_lead_to_a_single_write_of_the_state(fleet):
    fleet.register({f"host{number}": Facts() for number in range(40)})
    fleet.publish("r1", ALL_HOSTS)
    with fleet.coordinator() as daemon:
        run_cycles(daemon, times=2)
        before = fleet.session.get(paths.rollout_path(fleet.current)).version
        fleet.work()
        daemon.run_cycle()
        after = fleet.session.get(paths.rollout_path(fleet.current))
        assert after.version == before + 1
        assert after.data == encode_state(fleet.running)
        assert {grant.phase for grant in fleet.grants().values()} == {Phase.DEPLOY}

"""Rollbacks by the coordinator: real ZooKeeper, git and syncer, with simulated agents."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self
from unittest import mock

import pytest

from support.branches import Branch
from support.fleets.coordinated import CoordinatedFleet, CoordinatorHandle
from support.strategies import canary_first, plain_hosts
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.stop import COORDINATOR
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import CHECK_BUDGET, ForcedBy, SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.strategies.state import Recovery, RecoveryStage
from zkdeployment.strategies.state_machine import RolloutResult
from zkdeployment.strategies.store.records import read_current, read_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zkdeployment.strategies.state import RolloutState

TREE = "/shop\n  /web : web\n    version = '{}'\n    /deploy\n      /a\n      /b\n"


class Site:
    """A fleet of two simulated hosts whose tree is in a real repository, with a syncer that serves requests."""

    def __init__(self, directory: Path, zookeeper: str, session: Session) -> None:
        self.fleet = CoordinatedFleet(zookeeper, session)
        self.branch = Branch(directory)
        self.source = GitSource(str(self.branch.bare), directory / "syncer" / "tree", gap=0)
        self._ending = threading.Event()
        self._asked = threading.Event()
        self._syncer = threading.Thread(target=self._serve)
        self.age_limits: list[float] = []

    def __enter__(self) -> Self:
        self._syncer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_syncer()

    def end_syncer(self) -> None:
        """Serve no further request."""
        self._ending.set()
        self._asked.set()
        self._syncer.join()

    def _serve(self) -> None:
        with Session(self.fleet.connection) as session:
            store = ZooKeeperPublications(session)
            syncer = Syncer(self.source, store, SystemClock())
            store.watch_requests(self._asked.set)
            while not self._ending.is_set():
                self._asked.clear()
                if (request := store.request()) is not None and request.error is None:
                    self.age_limits.append(request.age_limit)
                    options = SyncOptions(
                        force=True,
                        overrides=request.overrides,
                        forced=ForcedBy(request.by, request.reason),
                        request=request,
                    )
                    syncer.sync(options)
                self._asked.wait(1)

    def publish(self, files: dict[str, str | bytes | None]) -> str:
        revision = self.branch.push(files)
        self.publish_tip()
        return revision

    def publish_tip(self) -> None:
        with Session(self.fleet.connection) as session:
            Syncer(self.source, ZooKeeperPublications(session), SystemClock()).sync(SyncOptions(force=True))

    def roll_out(self) -> None:
        """Run a coordinator until the rollout of the published revision is complete."""
        with self.fleet.coordinator() as daemon:
            assert self.fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS

    def turn(self, run_cycle: Callable[[], object]) -> None:
        """Run one cycle of a coordinator, then let the hosts work; only the second revision is bad."""
        run_cycle()
        if read_current(self.fleet.session) is not None:
            self.fleet.work()

    def fail(self, daemon: CoordinatorHandle, stage: RecoveryStage) -> None:
        """Run a coordinator until the recovery after the second revision has reached a stage."""
        for _ in range(40):
            self.turn(daemon.run_cycle)
            recovery = self.fleet.running.recovery
            if recovery is not None and recovery.stage is stage:
                return
        raise AssertionError(f"the recovery is not {stage.value}: {self.fleet.running}")

    def next_rollout(self, daemon: CoordinatorHandle) -> RolloutState:
        """Run a coordinator until the next rollout, in which no host fails, has ended."""
        failed = self.fleet.current
        self.fleet.failing.clear()
        for _ in range(40):
            self.turn(daemon.run_cycle)
            if self.fleet.current != failed and self.fleet.running.ended is not None:
                return self.fleet.running
        raise AssertionError(f"no further rollout has ended: {self.fleet.running}")

    @property
    def recovery(self) -> Recovery:
        recovery = self.fleet.running.recovery
        assert recovery is not None
        return recovery

    @property
    def rollbacks(self) -> list[str]:
        """The commits of the coordinator."""
        return self.branch.ask("log", "--author=coordinator", "--format=%H", "main").splitlines()


@pytest.fixture
def site(tmp_path: Path, zookeeper: str) -> Iterator[Site]:
    with Session(zookeeper) as session, Site(tmp_path, zookeeper, session) as site:
        site.fleet.register(plain_hosts("ab"), "initial")
        yield site


@pytest.fixture
def revisions(site: Site) -> tuple[str, str]:
    """A revision that was rolled out, and a published one that fails on the canary."""
    first = site.publish(
        {"a.zk": TREE.format("1.0"), "strategy.yaml": canary_first({"node_names": ["a"]}, on_failure="rollback")}
    )
    site.roll_out()
    second = site.publish({"a.zk": TREE.format("1.1")})
    site.fleet.failing = {("deploy", "a")}
    return first, second


class KilledError(BaseException):
    """The coordinator was killed."""


def test_a_coordinator_that_is_killed_after_each_write_commits_one_rollback_and_the_fleet_converges(
    site: Site, revisions: tuple[str, str]
) -> None:
    first, second = revisions
    places: list[str] = []

    def die(place: str) -> None:
        if place.startswith("after:"):
            places.append(place)
            raise KilledError

    def is_over() -> bool:
        rollout = site.fleet.running
        return rollout.revision not in revisions and rollout.ended is not None

    for number in range(60):
        if is_over():
            break
        if site.fleet.running.revision not in revisions:
            site.fleet.failing.clear()
        commits = site.branch.commits(f"acts{number}", reach=die)
        try:
            with site.fleet.coordinator(f"number {number}", die, commits=commits) as daemon:
                for _ in range(20):
                    site.turn(daemon.run_cycle)
        except KilledError:
            continue
    assert is_over()
    assert places.count("after:push") == 1
    (rollback,) = site.rollbacks
    assert site.branch.tip() == rollback
    assert site.branch.files() == site.branch.files(first)
    assert site.fleet.version == rollback
    assert site.fleet.running.rollout.result is RolloutResult.SUCCESS
    assert site.branch.ask("log", "-1", "--format=%s", "main").startswith(f"Roll back to {first[:12]}: rollout ")
    assert second in site.branch.ask("log", "--format=%H", "main")


def test_a_rollback_that_fails_is_not_rolled_back(site: Site, revisions: tuple[str, str]) -> None:
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        for _ in range(40):
            site.turn(daemon.run_cycle)
            running = site.fleet.running
            if running.revision not in revisions and running.recovery is not None:
                site.turn(daemon.run_cycle)
                break
    assert site.recovery.stage is RecoveryStage.REFUSED
    assert "is a rollback itself" in site.recovery.reason
    assert len(site.rollbacks) == 1
    assert site.fleet.version is None


def test_a_rollout_that_was_published_again_while_it_was_under_way_is_rolled_back(
    site: Site, revisions: tuple[str, str]
) -> None:
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        daemon.run_cycle()
        site.publish_tip()
        assert site.fleet.running.revision == revisions[1]
        for _ in range(40):
            site.turn(daemon.run_cycle)
            if site.rollbacks:
                break
    assert site.branch.files() == site.branch.files(revisions[0])


@pytest.mark.usefixtures("revisions")
def test_a_stop_by_an_operator_is_not_ended_by_the_rollback(site: Site) -> None:
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        for _ in range(40):
            site.turn(daemon.run_cycle)
            if site.fleet.running.recovery is not None:
                break
        assert site.recovery.stage is RecoveryStage.DUE
        ZooKeeperClusterControl(site.fleet.session).stop(Act("ann@ops", "stop", "nobody touches it", 1.0))
        daemon.run_cycle()
        daemon.run_cycle()
    assert site.recovery.stage is RecoveryStage.REFUSED
    assert site.recovery.reason.endswith("is committed, but stopped by ann@ops: nobody touches it")
    assert [site.recovery.commit] == site.rollbacks
    assert site.fleet.version is None


@pytest.mark.usefixtures("revisions")
def test_a_rollback_that_the_repository_refuses_is_left_to_the_operators(site: Site) -> None:
    site.branch.hook("pre-receive", "echo 'the branch is frozen' >&2; exit 1")
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        for _ in range(40):
            site.turn(daemon.run_cycle)
            recovery = site.fleet.running.recovery
            if recovery is not None and recovery.stage is RecoveryStage.REFUSED:
                break
    assert "the branch is frozen" in site.recovery.reason
    assert site.rollbacks == []
    assert site.fleet.version is None


def test_an_unreachable_repository_delays_the_rollback(site: Site, revisions: tuple[str, str]) -> None:
    hidden = site.branch.bare.with_name("hidden.git")
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        for _ in range(40):
            site.turn(daemon.run_cycle)
            if site.fleet.running.recovery is not None:
                break
        site.branch.bare.rename(hidden)
        assert daemon.run_cycle() == 10.0
        assert site.recovery.stage is RecoveryStage.DUE
        hidden.rename(site.branch.bare)

        def commits() -> bool:
            daemon.run_cycle()
            return site.recovery.stage is RecoveryStage.COMMITTED

        # A failed fetch is not repeated for as long as it took.
        wait_until(commits, "the rollback is committed")
        daemon.run_cycle()
    wait_until(lambda: site.fleet.version == site.branch.tip(), "the rollback is published")
    assert site.branch.files() == site.branch.files(revisions[0])


@pytest.mark.usefixtures("revisions")
def test_the_coordinator_waits_for_a_syncer_longer_than_its_check_of_packages_takes(site: Site) -> None:
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        site.fail(daemon, RecoveryStage.PUBLISHED)
    (limit,) = site.age_limits
    assert limit > CHECK_BUDGET


@pytest.mark.usefixtures("revisions")
def test_a_rollback_that_no_syncer_publishes_is_recorded_once(site: Site) -> None:
    site.end_syncer()
    with (
        site.fleet.coordinator(commits=site.branch.commits()) as daemon,
        mock.patch("zkdeployment.rollouts.daemon._PUBLICATION_TIMEOUT", 0.1),
    ):
        site.fail(daemon, RecoveryStage.COMMITTED)
        for _ in range(2):
            site.fleet.clock.time += 10
            assert daemon.run_cycle() == 10.0
        assert site.recovery.stage is RecoveryStage.COMMITTED
    assert [(act.by, act.what) for act in read_acts(site.fleet.session)] == [(COORDINATOR, "rollback")]


@pytest.mark.usefixtures("revisions")
def test_a_coordinator_that_is_asked_to_end_does_not_wait_for_a_syncer(site: Site) -> None:
    site.end_syncer()
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        site.fail(daemon, RecoveryStage.COMMITTED)
        daemon.control.stop()
        daemon.run_cycle()
    assert site.recovery.stage is RecoveryStage.COMMITTED
    assert site.fleet.session.get(paths.REQUEST) is None


def test_a_rollback_that_is_published_without_the_coordinator_is_recorded_as_published(
    site: Site, revisions: tuple[str, str]
) -> None:
    site.end_syncer()
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        site.fail(daemon, RecoveryStage.COMMITTED)
        failed = site.fleet.current
        site.publish_tip()
        assert site.next_rollout(daemon).revision not in revisions
    state = read_state(site.fleet.session, failed)
    assert state is not None
    assert state.recovery == Recovery(RecoveryStage.PUBLISHED, site.branch.tip())


@pytest.mark.parametrize("stage", [RecoveryStage.DUE, RecoveryStage.COMMITTED])
def test_a_resume_ends_the_recovery(site: Site, revisions: tuple[str, str], stage: RecoveryStage) -> None:
    site.end_syncer()
    with site.fleet.coordinator(commits=site.branch.commits()) as daemon:
        site.fail(daemon, stage)
        failed = site.fleet.current
        ZooKeeperClusterControl(site.fleet.session).resume(Act("ann@ops", "resume", "the disk is repaired", 1.0))
        assert site.next_rollout(daemon).attempt == 2
    state = read_state(site.fleet.session, failed)
    assert state is not None
    assert state.recovery is not None
    assert state.recovery.stage is RecoveryStage.REFUSED
    assert state.recovery.reason.endswith(f"the fleet continues with {revisions[1][:12]}")
    assert [state.recovery.commit] == (site.rollbacks or [""])

"""Composition of the coordinator: its adapters, its session and its controls."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.checks.daemon.check_daemon import CheckDaemon
from zkdeployment.checks.daemon.check_job import CheckHealth, CheckJob
from zkdeployment.checks.daemon.pokes import CheckPokes, HttpPokeSender
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.programs.process import arm_failpoints, build_probe
from zkdeployment.publishing.acts.opening import open_commits, user_author
from zkdeployment.rollouts.daemon import Coordinator, RecoverySteps
from zkdeployment.rollouts.store import ZooKeeperRollouts
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.config.settings import Settings

_COORDINATOR_SESSION = 10.0


@contextlib.contextmanager
def build_coordinator(settings: Settings) -> Iterator[tuple[Coordinator, Control]]:
    """Yield the coordinator and its control; no server is contacted before the coordinator runs."""
    arm_failpoints(settings)
    session = Session(settings.servers, session_timeout=_COORDINATOR_SESSION, create_chroot=True)
    try:
        control = Control(SystemClock())
        store = ZooKeeperRollouts(session, control.wake, reach=failpoints.reach)
        probe = build_probe(settings.require_coordinate().metrics, session)
        clock, notifier = SystemClock(), SystemdNotifier()
        recovery = RecoverySteps(
            operator=operator_adapters(session),
            open_commits=partial(open_commits, settings),
            author=user_author("coordinator"),
        )
        checks, health = build_checks(
            session, lambda: store.lead_node, interval=settings.require_checks().interval
        )
        coordinator = Coordinator(
            store,
            clock,
            control,
            connect=session.open,
            notifier=notifier,
            probe=probe,
            recovery=recovery,
            checks=checks,
            health=health,
            record_failure=FailureRecord(session, "coordinator").write,
        )
        yield coordinator, control
    finally:
        session.close()


def build_checks(
    session: Session, lead: Callable[[], str | None], *, interval: float
) -> tuple[CheckDaemon, CheckHealth]:
    """Return the daemon that runs checks while ``lead`` returns this coordinator's node, and their reader."""
    clock, systems = SystemClock(), ZooKeeperMonitoringSystems(session)
    instances = ZooKeeperCheckInstances(session, lead, reach=failpoints.reach)
    job = CheckJob(instances, ZooKeeperCheckSources(session), clock)
    pokes = CheckPokes(instances, systems, HttpPokeSender(), clock)
    record = FailureRecord(session, "job of the checks")
    daemon = CheckDaemon(
        instances, systems, job, pokes, clock, lead=lead, interval=interval, record_failure=record.write
    )
    return daemon, CheckHealth(job, instances, systems)

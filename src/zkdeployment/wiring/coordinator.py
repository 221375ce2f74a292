"""Composition of the coordinator: its adapters, its session and its controls."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.pokes import HttpPokeSender
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.adapters.zookeeper.checks.instances import ZooKeeperCheckInstances
from zkdeployment.adapters.zookeeper.checks.sources import ZooKeeperCheckSources
from zkdeployment.adapters.zookeeper.checks.systems import ZooKeeperMonitoringSystems
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.daemon_failures import FailureRecord
from zkdeployment.adapters.zookeeper.rollout.store import ZooKeeperRollouts
from zkdeployment.daemons import failpoints
from zkdeployment.daemons.checks.check_daemon import CheckDaemon
from zkdeployment.daemons.checks.check_health import CheckHealth
from zkdeployment.daemons.checks.check_job import CheckJob
from zkdeployment.daemons.checks.pokes import CheckPokes
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.coordinator.coordinator import Coordinator
from zkdeployment.daemons.coordinator.recovery_steps import RecoverySteps
from zkdeployment.wiring.commits import open_commits, user_author
from zkdeployment.wiring.operator import operator_adapters
from zkdeployment.wiring.process import arm_failpoints, build_probe

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
        probe = build_probe(settings.coordinator_metrics, session)
        clock, notifier = SystemClock(), SystemdNotifier()
        recovery = RecoverySteps(
            operator=operator_adapters(session),
            open_commits=partial(open_commits, settings),
            author=user_author("coordinator"),
        )
        checks, health = build_checks(session, lambda: store.lead_node, interval=settings.checks_interval)
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
    """Return what runs the checks while ``lead`` returns this coordinator's lock node, and what reads them."""
    clock, systems = SystemClock(), ZooKeeperMonitoringSystems(session)
    instances = ZooKeeperCheckInstances(session, lead, reach=failpoints.reach)
    job = CheckJob(instances, ZooKeeperCheckSources(session), clock)
    pokes = CheckPokes(instances, systems, HttpPokeSender(), clock)
    record = FailureRecord(session, "job of the checks")
    daemon = CheckDaemon(
        instances, systems, job, pokes, clock, lead=lead, interval=interval, record_failure=record.write
    )
    return daemon, CheckHealth(job, instances, systems)

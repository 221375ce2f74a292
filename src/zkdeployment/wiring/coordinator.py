"""Composition of the coordinator: its adapters, its session and its controls."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.rollout.store import ZooKeeperRollouts
from zkdeployment.daemons import failpoints
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.coordinator.coordinator import Coordinator
from zkdeployment.wiring.process import arm_failpoints, build_probe

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        probe = build_probe(settings.coordinate.metrics, session)
        clock, notifier = SystemClock(), SystemdNotifier()
        yield Coordinator(store, clock, control, connect=session.open, notifier=notifier, probe=probe), control
    finally:
        session.close()

"""Composition of the filter of split updates: its list, its session and its controls."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.config.settings import load, named_configuration
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.programs.process import arm_failpoints
from zkdeployment.providers.daemon import ProviderFilter
from zkdeployment.providers.filter_store import ZooKeeperFilter
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from zkdeployment.zookeeper.servers import Servers

_SESSION = 10.0  # seconds


@contextlib.contextmanager
def build_filter(
    servers: Servers, source: str, output: str, majority: Fraction
) -> Iterator[tuple[ProviderFilter, Control]]:
    """Yield the filter and its control; no server is contacted before the filter runs.

    Raises ``ConfigurationError`` for unusable paths.
    """
    if (named := named_configuration()) is not None:
        arm_failpoints(load(named, host=False))
    clock = SystemClock()
    control = Control(clock)
    session = Session(servers, session_timeout=_SESSION)
    try:
        session.on_change(control.wake)
        store = ZooKeeperFilter(session, source, output, control.wake, reach=failpoints.reach)
        yield (
            ProviderFilter(
                store,
                clock,
                control,
                majority=majority,
                connect=session.open,
                notifier=SystemdNotifier(),
                record_failure=FailureRecord(session, "filter of providers").write,
            ),
            control,
        )
    finally:
        session.close()

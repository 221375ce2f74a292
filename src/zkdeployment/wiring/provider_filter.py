"""Composition of the filter of split updates: its list, its session and its controls."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.daemon_failures import FailureRecord
from zkdeployment.adapters.zookeeper.filters.filter_store import ZooKeeperFilter
from zkdeployment.config.find_servers import named_configuration
from zkdeployment.config.load import load
from zkdeployment.daemons import failpoints
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.provider_filter import ProviderFilter
from zkdeployment.wiring.process import arm_failpoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from zkdeployment.model.servers import Servers

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

"""The adapters of a program that leads rollouts: its session, its controls and the criteria of the features."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.features import installed
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.places import LeaderPlaces
from zkdeployment.cli.process import arm_failpoints, build_control, build_probe
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.strategies.daemon import LeaderAdapters
from zkdeployment.strategies.store.records import FencedLead
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.strategy import MemberKind

_SESSION = 10.0  # seconds


@contextlib.contextmanager
def leader_adapters(
    settings: Settings, metrics: Path | None, kind: MemberKind
) -> Iterator[tuple[Session, LeaderAdapters]]:
    """Yield the session and the adapters of a daemon, which writes its metrics to a file.

    No server is contacted before the daemon runs.
    """
    arm_failpoints(settings)
    session = Session(settings.servers, session_timeout=_SESSION, create_chroot=True)
    try:
        control = build_control()
        lead = FencedLead(session, kind, failpoints.reach)
        criteria = [
            places.criterion(settings, session, lambda: lead.node, control.wake)
            for places in installed(LeaderPlaces)
        ]
        yield (
            session,
            LeaderAdapters(
                lead=lead,
                clock=SystemClock(),
                control=control,
                notifier=SystemdNotifier(),
                probe=build_probe(metrics, session),
                connect=session.open,
                criteria=criteria,
                record_failure=FailureRecord(session, kind.leader).write,
            ),
        )
    finally:
        session.close()

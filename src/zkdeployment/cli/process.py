"""The parts of every daemon: metrics, failpoints of tests, and the adapters of a daemon that leads rollouts."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.features import installed
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.program import late_import
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.places import LeaderPlaces
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.strategies.daemon import LeaderAdapters
from zkdeployment.strategies.store.records import FencedLead
from zkdeployment.zookeeper.access import encryption
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.base.daemon.metrics import Probe
    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.strategy import MemberKind


def build_control() -> Control:
    """Return the control with which signals and watches wake and end a daemon."""
    return Control(SystemClock())


def check_access(settings: Settings) -> None:
    """Raise ``ConfigurationError`` unless the certificates for ZooKeeper can be used."""
    encryption(settings.access)


def arm_failpoints(settings: Settings) -> None:
    """Arm the failpoints if the root is a scratch directory: a forgotten variable must not harm a real host."""
    if settings.root != Path("/"):
        failpoints.arm(os.environ)


def build_probe(metrics: Path | None, session: Session) -> Probe:
    """Return the probe that writes a daemon's metrics to a file; without one it writes nothing."""
    with late_import():  # agents without metrics do not load these modules
        from zkdeployment.base.daemon.metrics import MetricsFile, Probe  # noqa: PLC0415
    if metrics is None:
        return Probe(MetricsFile(None), SystemClock(), lambda: session.link, "")
    with late_import():
        from importlib.metadata import version  # noqa: PLC0415  the others start faster without it

        own_version = version("zkdeployment")
    return Probe(MetricsFile(metrics), SystemClock(), lambda: session.link, own_version)


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

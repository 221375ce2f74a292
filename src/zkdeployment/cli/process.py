"""The parts of every daemon: metrics, and the failpoints of tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.program import late_import
from zkdeployment.zookeeper.access import encryption

if TYPE_CHECKING:
    from zkdeployment.base.daemon.metrics import Probe
    from zkdeployment.config.settings import Settings
    from zkdeployment.zookeeper.session import Session


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

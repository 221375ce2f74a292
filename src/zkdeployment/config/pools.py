"""The section ``[pools]``: how often the worker checks the host pools, and how it reaches nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.durations import duration_seconds
from zkdeployment.config.section import LONGEST_WAIT

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.section import Section

#: A plain path: the text becomes part of a command on the nodes.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]*")


@dataclass(frozen=True, kw_only=True)
class PoolsSettings:
    """The settings of the worker of host pools.

    The worker checks the pools every ``interval`` seconds. ``ssh_key`` is the private key that nodes admit,
    ``ssh_config`` a configuration of ssh, and ``authorized_keys`` the file on nodes that gets the keys of tenants.
    Leases are signed with the SSH key ``lease_key``.
    """

    interval: float = 300.0
    ssh_key: Path | None = None
    ssh_config: Path | None = None
    authorized_keys: str = "/root/.ssh/authorized_keys"
    lease_key: Path | None = None


def read_pools(section: Section) -> PoolsSettings:
    """Return the settings of the worker. Problems are reported to the section."""
    section.checked("interval", _interval_problem)
    section.checked("authorized-keys", _file_problem)
    return PoolsSettings(
        interval=_seconds(section.text("interval") or "") or PoolsSettings().interval,
        ssh_key=section.path("ssh-key"),
        ssh_config=section.path("ssh-config"),
        authorized_keys=section.text("authorized-keys") or PoolsSettings().authorized_keys,
        lease_key=section.path("lease-key"),
    )


def _seconds(value: str) -> float | None:
    """Return the seconds of a duration above zero, of at most a year: a number, or text such as ``5m``."""
    is_number = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value)
    seconds = float(value) if is_number else duration_seconds(value) or 0.0
    return seconds if 0 < seconds <= LONGEST_WAIT else None


def _interval_problem(value: str) -> str | None:
    if _seconds(value):
        return None
    return f"expected seconds above 0, or a duration as in 5m, at most a year, found {value!r}"


def _file_problem(value: str) -> str | None:
    if _PLAIN_PATH.fullmatch(value):
        return None
    return f"expected the absolute path of a file, of letters, digits and . _ + @ : - only, found {value!r}"

"""The settings of the worker of host pools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from zkdeployment.base.durations import duration_seconds
from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import is_plain_path
from zkdeployment.config.forms import LONGEST_WAIT, PATH, Form, Report, SectionSettings, checked, setting

if TYPE_CHECKING:
    from pathlib import Path


def _file_on_nodes_problem(text: str) -> str | None:
    """Return why a path is not plain enough to become part of a command on the nodes."""
    if is_plain_path(text):
        return None
    return f"expected the absolute path of a file, of letters, digits and . _ + @ : - only, found {text!r}"


def _duration(text: str, report: Report) -> float | None:
    """Return the seconds of a duration above zero, of at most a year: a number, or text such as ``5m``."""
    is_number = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text)
    seconds = float(text) if is_number else duration_seconds(text) or 0.0
    if 0 < seconds <= LONGEST_WAIT:
        return seconds
    report(f"expected seconds above 0, or a duration as in 5m, at most a year, found {text!r}")
    return None


@dataclass(frozen=True, kw_only=True)
class PoolsSettings(SectionSettings):
    """The settings of the worker of host pools: the table of ``[pools]``."""

    SECTION: ClassVar[str] = "pools"
    PLACE: ClassVar[int] = 80

    interval: float = setting(Form(_duration), 300.0)
    """How often the worker checks all pools, in seconds or as text such as ``5m``. Changes wake it in between.
    Default: ``5m``.

    Example: 5m
    """

    ssh_key: Path | None = setting(PATH)
    """The file of the private key that all nodes of the mechanism ``ansible`` admit as root. Default: the keys of
    the user that runs the worker.

    Example: /var/lib/zkdeployment/pools/ssh_key
    """

    ssh_config: Path | None = setting(PATH)
    """A configuration file of ssh, for ports, jump hosts or known host keys.

    Without this file, the keys of nodes are not checked, because nodes are made again and again.

    Example: /var/lib/zkdeployment/pools/ssh_config
    """

    authorized_keys: str = setting(checked(_file_on_nodes_problem), "/root/.ssh/authorized_keys")
    """The file on the nodes that gets the keys of tenants. The file must exist, with the key of the worker in it.
    """

    lease_key: Path | None = setting(PATH)
    """The file of the SSH private key, without a passphrase, that signs the leases of hosts, which hosts with
    ``publishers`` demand. Default: leases are not signed.

    All workers of a fleet need a key if its hosts have ``publishers`` (:ref:`signed-leases`). The worker accepts
    leases that this key or one of the ``publishers`` in its own ``[zkdeployment]`` signed.

    Example: /etc/zkdeployment/lease_key
    """


SECTIONS = (PoolsSettings,)

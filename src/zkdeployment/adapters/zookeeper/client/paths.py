"""Where things are in ZooKeeper, besides the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

HOSTS = "/hosts"
HOSTS_LOCK = "/hosts-lock"
AGENT_LOCKS = "/agent-locks"
ROLE_LOCKS = "/role-locks"
OURS = "/zkdeployment"
TARGETS = f"{OURS}/targets"
MANAGED = f"{OURS}/managed"
STOPS = f"{OURS}/stops"
BUSY = f"{OURS}/busy"
OUT_OF_SERVICE = f"{OURS}/out-of-service"
INVENTORY = f"{OURS}/inventory"
HISTORY = f"{OURS}/history"
REQUEST = f"{OURS}/request"
NOTICE = f"{OURS}/notice"
AUDIT = f"{OURS}/audit"
SYNCER = f"{OURS}/syncer"
STRATEGY = f"{OURS}/strategy"
COORDINATORS = f"{OURS}/coordinators"
ROLLOUTS = f"{OURS}/rollouts"

#: A sequence is a time in seconds, or above.
_DIGITS = 10

#: The nodes that every publication and every agent find or make.
SKELETON = (
    HOSTS,
    AGENT_LOCKS,
    ROLE_LOCKS,
    OURS,
    TARGETS,
    MANAGED,
    STOPS,
    BUSY,
    OUT_OF_SERVICE,
    INVENTORY,
    HISTORY,
)


def target_path(name: str) -> str:
    """Return the node of a target: a host id, a host name or a role."""
    return f"{TARGETS}/{quote(name, safe='')}"


def out_of_service_path(host_id: str) -> str:
    """Return the node that says that a host gave its role's lock away with the role controller's bracket open."""
    return f"{OUT_OF_SERVICE}/{host_id}"


def history_path(sequence: int) -> str:
    """Return the node of a publication; the names sort as the publications follow each other."""
    return f"{HISTORY}/{sequence:0{_DIGITS}}"


def sequences(names: Iterable[str]) -> list[int]:
    """Return the sequences of the publications that have nodes of these names, sorted; others are ignored."""
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isascii() and name.isdecimal())


def rollout_path(rollout: str) -> str:
    """Return the node of a rollout; ``rollout`` is ``SEQUENCE-ATTEMPT``."""
    return f"{ROLLOUTS}/{rollout}"


def grants_path(rollout: str) -> str:
    """Return the node above all grants."""
    return f"{rollout_path(rollout)}/grants"


def reports_path(rollout: str) -> str:
    """Return the node above all reports."""
    return f"{rollout_path(rollout)}/reports"


def acts_path(rollout: str) -> str:
    """Return the node above operators' acts: ``act-NNNNNNNNNN``."""
    return f"{rollout_path(rollout)}/acts"


def grant_path(rollout: str, host_id: str) -> str:
    """Return the node that says what a host may enter."""
    return f"{grants_path(rollout)}/{quote(host_id, safe='')}"


def report_path(rollout: str, phase: str, host_id: str) -> str:
    """Return the node in which a host says how a phase went."""
    return f"{reports_path(rollout)}/{phase}:{quote(host_id, safe='')}"

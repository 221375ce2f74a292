"""The paths of the nodes of checks."""

from __future__ import annotations

from urllib.parse import quote

from zkdeployment.zookeeper.paths import OURS

CHECKS = f"{OURS}/checks"
INSTANCES = f"{CHECKS}/instances"
SYSTEMS = f"{CHECKS}/systems"
DUE = f"{CHECKS}/due"
CHANGED = f"{CHECKS}/changed"
UNWRITTEN = f"{CHECKS}/unwritten"


def system_path(system: str) -> str:
    """Return the path of a monitoring system; its children are indexes of its instances, and their results."""
    return f"{SYSTEMS}/{quote(system, safe='')}"

"""Where things are in ZooKeeper, besides the tree."""

from __future__ import annotations

from urllib.parse import quote

HOSTS = "/hosts"
HOSTS_LOCK = "/hosts-lock"
AGENT_LOCKS = "/agent-locks"
ROLE_LOCKS = "/role-locks"
OURS = "/zkdeployment"
TARGETS = f"{OURS}/targets"
MANAGED = f"{OURS}/managed"
STOPS = f"{OURS}/stops"
BUSY = f"{OURS}/busy"
INVENTORY = f"{OURS}/inventory"
REQUEST = f"{OURS}/request"
NOTICE = f"{OURS}/notice"
AUDIT = f"{OURS}/audit"
SYNCER = f"{OURS}/syncer"

#: The nodes that every publication and every agent find or make.
SKELETON = (HOSTS, AGENT_LOCKS, ROLE_LOCKS, OURS, TARGETS, MANAGED, STOPS, BUSY, INVENTORY)


def target_path(name: str) -> str:
    """Return the node of a target: a host id, a host name or a role."""
    return f"{TARGETS}/{quote(name, safe='')}"

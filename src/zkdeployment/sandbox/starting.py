"""Waiting until started daemons are ready, with an error that shows the log of a daemon that is not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import urllib3

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.operator.fleet_reader import ZooKeeperFleetReader
from zkdeployment.errors import ProgramError, WaitTimeoutError
from zkdeployment.sandbox.deadline import Deadline
from zkdeployment.sandbox.layout import log_tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.sandbox.members import SandboxDaemon

#: The time limit of daemons in seconds, and the addition for each daemon.
_LIMIT = 120.0
_LIMIT_EACH = 2.0

_INTERVAL = 0.05

#: What the bridge logs.
_SYNCHRONIZED = b"checks-synchronized"

#: The time limit in seconds for an answer of the service.
_ANSWER = 5.0


def wait_registered(zookeeper: str, agents: Mapping[str, SandboxDaemon]) -> None:
    """Return when the agents (by host id) are registered.

    Raises ``ProgramError`` if an agent ends before, and ``WaitTimeoutError`` at the time limit, with the end of
    its log.
    """
    deadline = Deadline(_LIMIT + _LIMIT_EACH * len(agents))
    with Session(zookeeper) as session:
        while missing := agents.keys() - set(session.children("/hosts") or ()):
            for host_id in sorted(missing):
                _check(agents[host_id], f"the agent of {host_id}", "was registered", deadline)
            time.sleep(_INTERVAL)


def wait_published(zookeeper: str, syncer: SandboxDaemon) -> None:
    """Return when the syncer has published a revision; raises errors like ``wait_registered``."""
    deadline = Deadline(_LIMIT)
    with Session(zookeeper) as session:
        while ZooKeeperFleetReader(session).snapshot().published is None:
            _check(syncer, "the syncer", "published the tree", deadline)
            time.sleep(_INTERVAL)


def wait_answering(url: str, daemon: SandboxDaemon) -> None:
    """Return when the service at ``url`` answers and has ZooKeeper; raises errors like ``wait_registered``."""
    deadline = Deadline(_LIMIT)
    while not _is_healthy(url):
        _check(daemon, "the service", "answered", deadline)
        time.sleep(_INTERVAL)


def wait_working(zookeeper: str, worker: SandboxDaemon) -> None:
    """Return when a worker of host pools is registered; raises errors like ``wait_registered``."""
    deadline = Deadline(_LIMIT)
    with Session(zookeeper) as session:
        while not session.children(paths.POOL_WORKERS):
            _check(worker, "the worker of host pools", "was registered", deadline)
            time.sleep(_INTERVAL)


def wait_synchronized(bridge: SandboxDaemon) -> None:
    """Return when the bridge has compared its files with the service; raises errors like ``wait_registered``."""
    deadline = Deadline(_LIMIT)
    while not (bridge.log.exists() and _SYNCHRONIZED in bridge.log.read_bytes()):
        _check(bridge, "the bridge of Nagios", "asked the service", deadline)
        time.sleep(_INTERVAL)


def _is_healthy(url: str) -> bool:
    try:
        return urllib3.request("GET", f"{url}/healthz", retries=False, timeout=_ANSWER).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _check(daemon: SandboxDaemon, name: str, aim: str, deadline: Deadline) -> None:
    if daemon.pid is None:
        raise ProgramError(f"{name} ended before it {aim}: {log_tail(daemon.log)}")
    if deadline.passed:
        raise WaitTimeoutError(f"{name} took too long before it {aim}; the end of its log: {log_tail(daemon.log)}")

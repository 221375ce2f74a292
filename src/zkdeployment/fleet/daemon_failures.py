"""The records in ZooKeeper of daemons whose cycles fail with an unexpected error."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, ClassVar

from zkdeployment.base.durations import age
from zkdeployment.base.errors import error_message
from zkdeployment.base.log import get_logger
from zkdeployment.base.records import Record
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import Create, Delete, Set

if TYPE_CHECKING:
    from zkdeployment.zookeeper.session import Session


@dataclass(frozen=True, slots=True)
class DaemonFailure(Record):
    """A daemon whose cycles fail: its kind, its host and process, the error, and when it first failed.

    The daemon removes the record after a cycle without such an error. The record also ends with the daemon.
    ``since`` is in seconds since the epoch.
    """

    is_lenient: ClassVar[bool] = True
    daemon: str
    by: str
    message: str
    since: float


def describe_failure(failure: DaemonFailure, now: float) -> str:
    """Return the failure as a sentence for lists; ``now`` is in seconds since the epoch."""
    lasting = age(max(0.0, now - failure.since))
    return f"the {failure.daemon} {failure.by} has failed in each cycle for {lasting}: {failure.message}"


#: The most characters of a message.
_LONGEST = 1000


class FailureRecord:
    """The record of one daemon, through its session.

    ``daemon`` is the daemon's kind for people; ``identity`` names it among all daemons of the kind (default: its
    host and process).
    """

    def __init__(self, session: Session, daemon: str, *, identity: str | None = None) -> None:
        self._session = session
        self._daemon = daemon
        self._identity = identity or f"{socket.gethostname()} (process {os.getpid()})"
        self._path = f"{paths.FAILURES}/{daemon} {self._identity}"
        self._is_written = False

    def write(self, message: str) -> None:
        """Record that cycles fail, with the message; an empty message removes the record.

        Errors of ZooKeeper are logged, and the next cycle writes again.
        """
        if not message and not self._is_written:
            return
        try:
            self._replace(message[:_LONGEST])
        except Exception as error:  # noqa: BLE001  the record of a failure must not end the daemon
            get_logger().warning("failure-not-recorded", reason=error_message(error))
        else:
            self._is_written = bool(message)

    def _replace(self, message: str) -> None:
        node = self._session.get(self._path)
        data = encode({"daemon": self._daemon, "by": self._identity, "message": message})
        if node is None:
            if message:
                self._session.ensure(paths.FAILURES)
                self._session.commit(Create(self._path, data, ephemeral=True))
        elif not message:
            self._session.commit(Delete(self._path, node.version))
        elif node.data != data:
            self._session.commit(Set(self._path, data, node.version))


def failure_of(_name: str, node: Node) -> DaemonFailure:
    """Decode the record of a daemon."""
    return DaemonFailure.from_json({**node.properties, "since": node.created})

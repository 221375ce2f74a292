"""The output of the running script, written to ZooKeeper only while a service shows it.

A service asks for the output of a host with an ephemeral node. The agent watches for this node, with one request
for the first script of each session, and writes into it while it exists: a fleet whose output is not shown costs
ZooKeeper nothing.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.stop import MAX_LIVE_BYTES, LiveOutput
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.connection import WatchHandler
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Set, TransactionError

if TYPE_CHECKING:
    from zkdeployment.agent.scripts import ScriptOutput
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.zookeeper.session import Session

#: Seconds between two writes of an output that grows, and of one that does not: a write finds out whether the
#: service still asks.
_PACE, _CONFIRMED = 1.0, 5.0


class LiveOutputWriter:
    """Writes the end of the output of a host's running script while a service asks for it."""

    def __init__(self, session: Session, clock: Clock, host_id: str) -> None:
        self._session = session
        self._clock = clock
        self._host_id = host_id
        self._path = paths.live_output_path(host_id)
        self._changed = threading.Event()
        self._watching: int | None = None  # the session with a watch, or with a request
        self._is_requested = False
        self._written: tuple[str, str] | None = None  # the step and its output
        self._written_at = 0.0
        self._next_at = 0.0  # after a failure: when ZooKeeper is contacted again

    def show(self, revision: str, step: str, output: ScriptOutput, is_over: bool) -> None:  # noqa: FBT001  a fact
        """Write the end of the output of a script, if it is asked for and due.

        The last output of a script that ``is_over`` is always due. Never raises, and does not wait for ZooKeeper
        without a connection: a script is running, which the agent has to watch.
        """
        session_id, now = self._session.id, self._clock.monotonic()
        if session_id is None or (now < self._next_at and not is_over):
            return
        try:
            if session_id != self._watching or (self._changed.is_set() and not self._is_requested):
                self._watching = None  # a failure leaves no watch
                self._changed.clear()
                self._is_requested = self._session.exists(self._path, WatchHandler(self._changed.set))
                self._watching, self._written = session_id, None
            waited = now - self._written_at
            if self._is_requested and (is_over or self._written is None or waited >= _PACE):
                text, file = output.tail(MAX_LIVE_BYTES), str(output.file)
                if (step, text) != self._written or waited >= _CONFIRMED:
                    self._write(LiveOutput(self._host_id, revision, step, self._clock.now(), text, file))
        except ZkdeploymentError as error:
            self._next_at = self._clock.monotonic() + _PACE
            get_logger().debug("output-not-shown", reason=str(error))

    def _write(self, output: LiveOutput) -> None:
        self._written, self._written_at = (output.step, output.text), self._clock.monotonic()
        try:
            self._session.commit(Set(self._path, encode(output.to_json())))
        except TransactionError:  # the service no longer asks
            self._is_requested = False
            self._changed.set()

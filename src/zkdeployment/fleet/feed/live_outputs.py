"""The outputs of running scripts: a service asks the agents for them while a page shows them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.base.errors import DeniedError
from zkdeployment.base.log import get_logger
from zkdeployment.base.stop import LiveOutput
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Create, Delete, TransactionError

if TYPE_CHECKING:
    from zkdeployment.zookeeper.session import Session

#: Seconds after an output was last shown until its request is withdrawn.
LINGER = 10.0

#: The most hosts that one service asks at the same time.
MOST_REQUESTS = 50

#: Seconds between two reads of a caller that waits for an answer.
_POLL = 0.1


class LiveOutputs:
    """The requests of this service for the outputs of running scripts, through one session.

    A request is an ephemeral node, in which the agent of the host writes the end of the output.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._shown: dict[str, float] = {}

    def ask(self, host_id: str) -> LiveOutput | None:
        """Return the output of a host's running script; ask the host for it if this service does not ask yet.

        ``None`` until the host has answered, if this service asks too many other hosts, and if it lacks the
        rights to ask.
        """
        with self._lock:
            if host_id not in self._shown and len(self._shown) >= MOST_REQUESTS:
                return None
            self._shown[host_id] = time.monotonic()
        try:
            return self._ask(host_id)
        except DeniedError as error:
            get_logger().debug("output-not-requested", host=host_id, reason=str(error))
            with self._lock:
                self._shown.pop(host_id, None)
            return None

    def wait_for(self, host_id: str, seconds: float) -> LiveOutput | None:
        """Return the output of a host's running script, or ``None`` if the host does not answer in time."""
        deadline = time.monotonic() + seconds
        while (found := self.ask(host_id)) is None and time.monotonic() < deadline:
            time.sleep(_POLL)
        return found

    def _ask(self, host_id: str) -> LiveOutput | None:
        path = paths.live_output_path(host_id)
        node = self._session.get(path)
        if node is None:
            self._session.ensure(paths.LIVE_OUTPUTS)
            with contextlib.suppress(TransactionError):  # another service asks, too
                self._session.commit(Create(path, ephemeral=True))
            return None
        return LiveOutput.from_json(node.properties, host_id=host_id) if node.properties else None

    def withdraw_outdated(self) -> None:
        """Withdraw the requests for outputs that no page has shown for some seconds.

        Another service that still shows such an output asks again.
        """
        with self._lock:
            outdated = [name for name, shown in self._shown.items() if time.monotonic() - shown > LINGER]
        for host_id in outdated:
            with contextlib.suppress(TransactionError, DeniedError):
                self._session.commit(Delete(paths.live_output_path(host_id)))
            with self._lock:
                self._shown.pop(host_id, None)

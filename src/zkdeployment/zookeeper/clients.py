"""Data watches on kazoo's clients, and the end of clients that are no longer used."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kazoo.recipe.watchers import DataWatch
from kazoo.retry import ForceRetryError, KazooRetry

from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds until a client that does not end is abandoned.
CLOSE_LIMIT = 5.0


def discard(client: Any) -> threading.Thread:
    """Stop an unused client in the background, as stopping may hang; return the thread."""

    def close() -> None:
        try:
            client.close()
        except Exception as error:  # kazoo does not close a client that is already ending
            raise ForceRetryError from error

    def stop() -> None:
        with contextlib.suppress(Exception):  # errors of an unused client have no effect
            client.stop()
            KazooRetry(max_tries=-1, delay=0.05, max_delay=0.05, max_jitter=0, deadline=CLOSE_LIMIT)(close)

    worker = threading.Thread(target=stop, name="close-zookeeper", daemon=True)
    worker.start()
    return worker


def watch_data(client: Any, path: str, changed: Callable[[], None]) -> None:
    """Call ``changed`` now and whenever the node at ``path`` may have changed, for as long as the client lives."""

    def wake(_data: object, _stat: object, _event: object) -> None:
        call_safely(changed)

    # The registration waits for the server without a limit, so it must not run in the caller's thread.
    client.handler.spawn(DataWatch, client, path, wake)


@dataclass(frozen=True)
class WatchHandler:
    """A watch that calls ``changed``; kazoo keeps only one of equal handlers on a node."""

    changed: Callable[[], None]

    def __call__(self, _event: object) -> None:
        """Call the function, whatever the event."""
        call_safely(self.changed)


def call_safely(changed: Callable[[], None]) -> None:
    """Call a wake-up function on kazoo's thread; its exceptions are logged, as they would end that thread."""
    try:
        changed()
    except Exception:  # noqa: BLE001  kazoo would call it again, or end its connection
        get_logger().exception("zookeeper-callback-failed")

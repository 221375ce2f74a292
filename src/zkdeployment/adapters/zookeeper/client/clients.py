"""How kazoo's clients are watched through, and ended."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kazoo.recipe.watchers import DataWatch
from kazoo.retry import ForceRetryError, KazooRetry

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that a client has to end.
CLOSE_LIMIT = 5.0


def discard(client: Any) -> threading.Thread:
    """Stop a client that is not used any more, in the background: that may hang."""

    def close() -> None:
        try:
            client.close()
        except Exception as error:  # a client that is just ending refuses to be closed
            raise ForceRetryError from error

    def stop() -> None:
        with contextlib.suppress(Exception):  # whatever it says
            client.stop()
            KazooRetry(max_tries=-1, delay=0.05, max_delay=0.05, max_jitter=0, deadline=CLOSE_LIMIT)(close)

    worker = threading.Thread(target=stop, name="close-zookeeper", daemon=True)
    worker.start()
    return worker


def watch_data(client: Any, path: str, changed: Callable[[], None]) -> None:
    """Call ``changed`` now and whenever the node at ``path`` may have changed, for as long as the client lives."""

    def wake(_data: object, _stat: object, _event: object) -> None:
        call_safely(changed)

    # It waits for the server without a limit, so it must not do so in the caller's thread.
    client.handler.spawn(DataWatch, client, path, wake)


@dataclass(frozen=True, slots=True)
class WatchHandler:
    """A watch that only calls somebody; of equal ones on a node kazoo keeps one."""

    changed: Callable[[], None]

    def __call__(self, _event: object) -> None:
        """Something happened; kazoo says what."""
        call_safely(self.changed)


def call_safely(changed: Callable[[], None]) -> None:
    """Call somebody's wake-up on kazoo's thread, which an exception must not reach."""
    try:
        changed()
    except Exception:  # noqa: BLE001  kazoo would call it again, or end its connection
        get_logger().exception("zookeeper-callback-failed")

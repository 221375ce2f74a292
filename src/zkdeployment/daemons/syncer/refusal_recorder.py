"""Records which tip the syncer refuses, so that operators and the jobs of commits see it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError, SourceError, TreeError, ZkdeploymentError, without_secrets
from zkdeployment.log import get_logger
from zkdeployment.model.publishing.history import MAX_PROBLEM_LENGTH, MOST_PROBLEMS, Refusal
from zkdeployment.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
    from zkdeployment.model.cluster import Revision
    from zkdeployment.ports.process import Clock


class RefusalRecorder:
    """Writes refusals to ``store``; a write that fails is logged, and the next cycle writes again."""

    def __init__(self, store: ZooKeeperPublications, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @contextmanager
    def judging(self, tip: Revision, refused: Revision | None) -> Iterator[None]:
        """Record whether the block refuses ``tip``; ``refused`` is the tip that is recorded as refused.

        The problems of a tree, of its signature and of the guards are refusals. Other errors leave the tip
        unjudged: then only a refusal of another tip is withdrawn, because that is no longer the tip.
        """
        try:
            yield
        except ZkdeploymentError as error:
            if is_refusal(error):
                self._write(Refusal(tip, _problems(error), self._clock.now()))
            elif refused not in {None, tip}:
                self._write(None)
            raise
        if refused is not None:
            self._write(None)

    def _write(self, refusal: Refusal | None) -> None:
        try:
            self._store.record_refusal(refusal)
        except ZkdeploymentError as error:
            get_logger().warning("refusal-not-recorded", reason=str(error))


def is_refusal(error: ZkdeploymentError) -> bool:
    """Whether an error means that the tip itself is not acceptable, rather than the state of the fleet."""
    # The subclasses of RefusedError are about the fleet: all stop, not converged, the lock, the store.
    return type(error) is RefusedError or (isinstance(error, TreeError | SourceError) and not error.retry_helps)


def _problems(error: ZkdeploymentError) -> tuple[str, ...]:
    """Return the problems that an error lists, one on each line; the heading of a list is left out."""
    heading, *lines = without_secrets(str(error)).splitlines() or ["unknown"]
    listed = [printable(line.strip())[:MAX_PROBLEM_LENGTH] for line in (lines or [heading])]
    return tuple(listed[:MOST_PROBLEMS])

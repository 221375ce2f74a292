"""The coordinator's reactions to errors of a cycle: the event that it logs, and the time of the next attempt."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from zkdeployment.daemons.coordinator.recovery_steps import RecoveryDelayedError
from zkdeployment.errors import ConflictError, LockLostError, UnreachableError


@dataclass(frozen=True, slots=True)
class FailureKind:
    """Errors of one kind: their log event, which is also the result in the metrics, and the log level.

    ``pause`` is in seconds until the next cycle.
    """

    error: type[Exception]
    event: str
    level: int
    pause: float


#: The kinds of failures; the first one whose error type matches applies.
FAILURE_KINDS = (
    FailureKind(LockLostError, "lead-lost", logging.WARNING, 0.0),
    FailureKind(ConflictError, "write-conflicted", logging.INFO, 0.0),
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.WARNING, 2.0),
    FailureKind(RecoveryDelayedError, "rollback-delayed", logging.WARNING, 10.0),
    FailureKind(Exception, "coordination-failed", logging.ERROR, 2.0),
)


def failure_kind(error: Exception) -> FailureKind:
    """Return the kind of an error."""
    return next(kind for kind in FAILURE_KINDS if isinstance(error, kind.error))

"""The failures of a coordinator's cycles: their log events, and the time of the next attempt."""

from __future__ import annotations

import logging

from zkdeployment.daemons.coordinator.recovery_steps import RecoveryDelayedError
from zkdeployment.daemons.cycle_failures import FailureKind
from zkdeployment.errors import ConflictError, LockLostError, UnreachableError

#: The kinds of failures, each with the seconds until the next cycle.
PAUSES = {
    FailureKind(LockLostError, "lead-lost", logging.WARNING): 0.0,
    FailureKind(ConflictError, "write-conflicted", logging.INFO): 0.0,
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.WARNING): 2.0,
    FailureKind(RecoveryDelayedError, "rollback-delayed", logging.WARNING): 10.0,
    FailureKind(Exception, "coordination-failed", logging.ERROR): 2.0,
}

FAILURE_KINDS = tuple(PAUSES)

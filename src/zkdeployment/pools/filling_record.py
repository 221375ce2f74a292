"""The record about the filling of a pool: the failures in a row, and how the pool was last described."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zkdeployment.pools.reasons import shortened
from zkdeployment.unknown_keys import no_keys

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class FillingRecord:
    """The filling of a pool.

    ``failures`` is the number of failures of provisioning in a row, ``last_failure`` the time of the last one in
    seconds since the epoch, and ``reason`` why it failed. ``values`` are the values of the pool when it was last
    filled: they serve to deprovision nodes when the pool is no longer in the document, or has another mechanism
    there. ``below_since`` is when a worker first found that the pool is below its level; ``None`` while it is not.
    ``level`` is the level in force of a pool whose level depends on the time. ``stamp`` is the version of the
    record when it was read, ``None`` for a new one; ``unknown`` are the keys of the record that this version does
    not know.
    """

    failures: int = 0
    last_failure: float = 0.0
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    below_since: float | None = None
    level: int | None = None
    stamp: int | None = field(default=None, compare=False)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    def after_failure(self, reason: str, begun: float, now: float) -> FillingRecord:
        """Return the record after a failure of nodes that were chosen at ``begun``.

        Failures of nodes that were chosen before the last failure count with it: they are of one attempt.
        """
        failures = self.failures + (begun >= self.last_failure or not self.failures)
        return replace(self, failures=failures, last_failure=now, reason=shortened(reason))

    def seen_at(self, now: float) -> FillingRecord:
        """Return the record as a process with this time reads it: no failure lies in the future.

        The clock of the worker that recorded such a failure is ahead, and would delay the filling by as much.
        """
        below = None if self.below_since is None else min(self.below_since, now)
        return replace(self, last_failure=min(self.last_failure, now), below_since=below)

    def after_success(self) -> FillingRecord:
        """Return the record after nodes were provisioned, or when an operator wants another attempt at once."""
        return replace(self, failures=0, last_failure=0.0, reason="")

"""The filter of split updates: keeps a list of the instances in service, or queues while another filter leads.

A filter keeps nothing in memory: the version in service is recorded in the list, where a successor reads it. The
decisions are in ``selection``; this module reads, decides and writes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import Backoff, CycleFailures, DaemonLead, FailureKind, run_cycles
from zkdeployment.base.errors import (
    ConflictError,
    LockLostError,
    RefusedError,
    RestartError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.providers.selection import next_change

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.providers.filter_store import ZooKeeperFilter
    from zkdeployment.providers.selection import FilterChange, FilteredList

#: Seconds between two cycles: at most (without any change), and at least (so that one cycle handles several
#: changes).
_MOST_SECONDS = 15.0
_LEAST_SECONDS = 0.1

#: The failures after which a filter continues.
_FAILURE_KINDS = (
    FailureKind(LockLostError, "lead-lost", logging.WARNING),
    FailureKind(ConflictError, "write-conflicted", logging.INFO),
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.WARNING),
    FailureKind(Exception, "filter-failed", logging.ERROR),
)


class ProviderFilter:
    """Keeps the list of ``store``; ``connect`` opens its session and does nothing when it is open.

    ``record_failure``: see ``CycleFailures``.
    """

    def __init__(  # noqa: PLR0913  the adapters that it depends on
        self,
        store: ZooKeeperFilter,
        clock: Clock,
        control: Control,
        *,
        majority: Fraction,
        connect: Callable[[], None],
        notifier: SystemdNotifier,
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._control = control
        self._majority = majority
        self._connect = connect
        self._notifier = notifier
        self._backoff = Backoff(first=1.0, most=_MOST_SECONDS)
        self._failures = CycleFailures(_FAILURE_KINDS, notifier.status, record_failure)
        self._lead = DaemonLead(store.lead, notifier, otherwise="another filter leads")
        self._checked = False

    def run(self) -> None:
        """Run cycles until asked to end.

        Raises ``RefusedError`` if the list may not be kept at its path, and ``RestartError`` if the connection
        cannot be restored.
        """
        self._notifier.ready()
        try:
            run_cycles(
                self.run_cycle,
                self._control,
                self._clock,
                self._notifier,
                least=lambda: max(_LEAST_SECONDS, self._backoff.seconds),
            )
        finally:
            self._notifier.stopping()
            self._store.resign()

    def run_cycle(self) -> float:
        """Bring the list up to date once if this filter leads; return the seconds until the next cycle."""
        try:
            self._connect()
            if not self._checked:
                self._store.filtered()  # a filter that may never write is refused before it queues
                self._checked = True
            if not self._lead.acquire():
                self._failures.end()
                return 0.0
            self._update()
        except RestartError:
            raise
        except Exception as error:
            if isinstance(error, RefusedError) and not error.retry_helps:
                raise
            return self._report(error)
        self._backoff.reset()
        self._failures.end()
        return _MOST_SECONDS

    def _update(self) -> None:
        before = self._store.filtered()
        change = next_change(self._store.registered(), before, self._majority)
        if change is not None:
            self._store.write(change)
            _log_change(before, change)
        version = before.version if change is None else change.version
        self._notifier.status(
            f"version in service: {'none' if version is None else version or 'without a version'}"
        )

    def _report(self, error: Exception) -> float:
        """Report an error, and leave the lead after a defect; return the seconds until the next cycle."""
        self._failures.report(error)
        if isinstance(error, LockLostError | UnreachableError):
            self._lead.lose()
        elif not isinstance(error, ZkdeploymentError):
            self._lead.lose()
            self._store.resign()  # another filter may do better
        return self._backoff.fail()


def _log_change(before: FilteredList, change: FilterChange) -> None:
    counts = {"added": len(change.add), "replaced": len(change.replace), "removed": len(change.remove)}
    if change.version != before.version:
        get_logger().info("version-switched", before=before.version, version=change.version, **counts)
    else:
        get_logger().info("list-updated", version=change.version, **counts)

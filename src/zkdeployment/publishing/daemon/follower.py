"""The syncer as a daemon: follows the branch, and serves publication requests of operators at once.

The times of cycles and the reports of outcomes belong here, a cycle itself to ``syncer``.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.cycles import Backoff, CycleFailures, FailureKind, jittered
from zkdeployment.base.daemon.metrics import CycleTelemetry, Metric, Probe, gauge, info
from zkdeployment.base.errors import (
    AllStopError,
    ConfigurationError,
    HostFilesError,
    LockHeldError,
    NotConvergedError,
    RefusedError,
    RestartError,
    ShutdownError,
    SourceError,
    StalePublicationError,
    TreeError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
    without_secrets,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.daemon.syncer import is_refusal
from zkdeployment.publishing.records import CommitSummary, ForcedBy, PublicationRequest, SyncOptions
from zkdeployment.publishing.store.requests import answer_request
from zkdeployment.zookeeper.server_time import server_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.publishing.daemon.syncer import Syncer, SyncReport
    from zkdeployment.publishing.store.store import ZooKeeperPublications


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPublication:
    """The last publication: its end in seconds since the epoch, its duration in seconds, and the changed nodes.

    The duration includes the time to read the repository.
    """

    time: float
    seconds: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerFacts:
    """The facts behind the metrics of a syncer that follows a branch.

    ``interval`` is the number of seconds between two cycles. ``fetched`` is when the repository was last read,
    ``waiting`` is when the branch got a revision other than ``published``; both are in seconds since the epoch.
    """

    interval: float = 0.0
    fetched: float | None = None
    published: Revision | None = None
    waiting: float | None = None
    last: LastPublication | None = None


def syncer_metrics(facts: SyncerFacts) -> tuple[Metric, ...]:
    """Return the metrics of a syncer, besides those of its process and its cycles."""
    time, seconds, nodes = None, None, None
    if facts.last is not None:
        time, seconds, nodes = facts.last.time, facts.last.seconds, facts.last.nodes
    return (
        gauge("syncer_interval_seconds", "Seconds between two reads of the tree's repository.", facts.interval),
        gauge("syncer_fetched_timestamp_seconds", "When the repository was last read.", facts.fetched),
        info("syncer_revision_info", "The published revision, as the label.", facts.published),
        gauge(
            "syncer_unpublished_since_timestamp_seconds",
            "When the syncer first found an unpublished revision on the branch; no sample without one.",
            facts.waiting,
        ),
        gauge("syncer_last_publication_timestamp_seconds", "When the syncer last published.", time),
        gauge(
            "syncer_last_publication_duration_seconds",
            "The duration of the last publication, from the read of the repository on.",
            seconds,
        ),
        gauge("syncer_last_publication_nodes", "Nodes of the tree that the last publication changed.", nodes),
    )


#: The results of a syncer's cycle that did not fail.
_PUBLISHED, _UNCHANGED = "published", "unchanged"


class SyncerTelemetry(CycleTelemetry):
    """Records the cycles of a syncer that follows a branch."""

    def __init__(self, probe: Probe) -> None:
        super().__init__("syncer", probe, (_PUBLISHED, _UNCHANGED, *(kind.event for kind in FAILURE_KINDS)))
        self.facts = SyncerFacts()
        self._begun = 0.0

    def begin(self, interval: float) -> None:
        """Record the start of a cycle."""
        self._begun = self.probe.clock.monotonic()
        self.facts = replace(self.facts, interval=interval)

    def succeed(self, report: SyncReport, fetched: float | None) -> None:
        """Record a cycle after which the branch's tip is published."""
        self.facts = replace(self.facts, fetched=fetched, published=report.revision, waiting=None)
        self.count(_UNCHANGED if report.draft is None else _PUBLISHED)
        if report.draft is not None:
            clock, change = self.probe.clock, report.draft.change
            nodes = len(change.create) + len(change.update) + len(change.delete)
            last = LastPublication(time=clock.now(), seconds=clock.monotonic() - self._begun, nodes=nodes)
            self.facts = replace(self.facts, last=last)

    def fail(self, failure: str, fetched: float | None, *, is_unpublished: bool) -> None:
        """Record a failed cycle; ``is_unpublished``: the branch has a revision that is not published."""
        waiting = (self.facts.waiting or fetched) if is_unpublished else None
        self.facts = replace(self.facts, fetched=fetched, waiting=waiting)
        self.count(failure)


#: Characters of an error that answer a request; the log has the whole error.
_LONGEST_ANSWER = 4000

#: Seconds until the next attempt to serve a request that stays open.
_LOCKED_RETRY = 2.0

#: The most seconds for which a syncer that cannot publish leaves a request to other syncers.
_LEFT_TO_OTHERS = 20.0

#: The failures after which a syncer continues.
FAILURE_KINDS = (
    FailureKind(StalePublicationError, "store-went-back", logging.CRITICAL),
    FailureKind(AllStopError, "all-stop", logging.CRITICAL),
    FailureKind(NotConvergedError, "not-converged", logging.INFO),
    FailureKind(RefusedError, "publication-refused", logging.WARNING),
    FailureKind(TreeError, "tree-refused", logging.ERROR),
    FailureKind(SourceError, "repository-unreadable", logging.ERROR),
    FailureKind(UnreachableError, "zookeeper-unreachable", logging.WARNING),
    FailureKind(Exception, "sync-failed", logging.ERROR),
)


class Follower:
    """Runs a cycle every ``interval`` seconds, when woken, and when an operator requests a publication.

    ``connect`` opens the session of ``store``, and does nothing if it is open. ``unfinished`` returns a context
    that marks a cycle as unfinished until it succeeds. ``record_failure``: see ``CycleFailures``.
    """

    def __init__(  # noqa: PLR0913  the adapters a follower depends on
        self,
        syncer: Syncer,
        store: ZooKeeperPublications,
        control: Control,
        *,
        connect: Callable[[], None],
        notifier: SystemdNotifier,
        probe: Probe,
        unfinished: Callable[[], AbstractContextManager[None]] = nullcontext,
        record_failure: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._syncer = syncer
        self._store = store
        self._control = control
        self._connect = connect
        self._unfinished = unfinished
        self._notifier = notifier
        self._telemetry = SyncerTelemetry(probe)
        self._backoff = Backoff(first=2.0, most=60.0)
        self._watching = False
        self._request_waits = False
        self._failures = CycleFailures(FAILURE_KINDS, notifier.status, record_failure)

    def run(self, interval: float) -> None:
        """Follow the branch until stopped; raises ``RestartError`` if the ZooKeeper session cannot be restored."""
        self._notifier.ready()
        while not self._control.stopping:
            self._cycle(interval)
            self._telemetry.write(syncer_metrics(self._telemetry.facts))
            self._notifier.watchdog()
            pause = min(interval, _LOCKED_RETRY) if self._request_waits else max(interval, self._backoff.seconds)
            # The jitter keeps several syncers from polling the repository at the same moment.
            self._wait(jittered(pause, 0.1))
        self._notifier.stopping()
        self._telemetry.write(syncer_metrics(self._telemetry.facts), up=False)

    def _wait(self, seconds: float) -> None:
        """Wait for a wake-up, and notify the watchdog in the meantime."""
        pace = self._notifier.pace
        while not self._control.wait(min(seconds, pace)) and seconds > pace:
            self._notifier.watchdog()
            seconds -= pace

    def _cycle(self, interval: float) -> None:
        self._telemetry.begin(interval)
        self._request_waits = False
        try:
            with self._unfinished():
                report = self._sync()
        except RestartError:
            raise
        except ShutdownError as error:
            get_logger().info("publication-abandoned", reason=str(error))
        except ZkdeploymentError as error:
            self._backoff.reset()
            self._fail(error, interval)
        except Exception as error:  # noqa: BLE001  a bug must not end every syncer
            self._backoff.fail()
            self._fail(error, interval)
        else:
            self._backoff.reset()
            self._telemetry.succeed(report, self._syncer.fetched)
            self._failures.end()
            self._notifier.status(report.sentence)
            self._report(report.sentence, interval, ())

    def _sync(self) -> SyncReport:
        self._connect()
        if not self._watching:
            self._store.watch_requests(self._control.wake)
            self._watching = True
        request = self._store.request()
        return self._syncer.sync() if request is None else self._serve(request)

    def _serve(self, request: PublicationRequest) -> SyncReport:
        """Publish on an operator's request, or answer the request with the error.

        A request stays open if ZooKeeper is unreachable, if this syncer is asked to end, or if another syncer
        holds the lock: that syncer may have been killed, and its lock lasts as long as its session. For a while it
        also stays open after an error of this machine, which other syncers may not have.
        """
        get_logger().info("publication-requested", by=request.by, reason=request.reason)
        forced = ForcedBy(request.by, request.reason, str(request.overrides))
        try:
            return self._syncer.sync(
                SyncOptions(force=True, overrides=request.overrides, forced=forced, request=request)
            )
        except (UnreachableError, RestartError, ShutdownError):
            raise
        except LockHeldError:
            self._request_waits = True
            raise
        except Exception as error:
            self._request_waits = self._is_left_to_others(error, request)
            if not self._request_waits:
                answer = without_secrets(error_message(error))[:_LONGEST_ANSWER]
                answer_request(self._store.session, request, answer)
            raise

    def _is_left_to_others(self, error: Exception, request: PublicationRequest) -> bool:
        if not isinstance(error, SourceError | HostFilesError | ConfigurationError) or is_refusal(error):
            return False
        age = server_time(self._store.session) - request.written
        return age < min(_LEFT_TO_OTHERS, request.age_limit / 2)

    def _fail(self, error: Exception, interval: float) -> None:
        """Report a failed cycle to the log, the supervisor, the metrics and ZooKeeper."""
        syncer, kind = self._syncer, self._failures.report(error)
        self._telemetry.fail(kind.event, syncer.fetched, is_unpublished=syncer.unpublished is not None)
        if not isinstance(error, UnreachableError):
            self._report(error_message(error), interval, None)

    def _report(self, message: str, interval: float, waiting: Sequence[CommitSummary] | None) -> None:
        """Write this syncer's report to ZooKeeper; a failure is logged, and the next cycle writes again.

        ``None`` stands for the commits that the failed cycle found.
        """
        try:
            found = self._waiting() if waiting is None else waiting
            self._store.report(message, interval, self._syncer.fetched, found)
        except Exception as error:  # noqa: BLE001  the next cycle tries again after every error
            get_logger().warning("report-not-written", reason=error_message(error))

    def _waiting(self) -> Sequence[CommitSummary]:
        """Return the commits that the failed cycle found; none if the repository cannot be read."""
        try:
            return self._syncer.waiting()
        except SourceError as error:
            get_logger().warning("waiting-commits-unknown", reason=error_message(error))
            return ()

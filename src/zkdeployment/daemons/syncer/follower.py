"""The syncer as a daemon: follows the branch, and publishes at once when an operator asks for it."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import TYPE_CHECKING

from zkdeployment.daemons.backoff import Backoff
from zkdeployment.daemons.telemetry.syncer import SyncerTelemetry
from zkdeployment.errors import (
    AllStopError,
    LockHeldError,
    NotConvergedError,
    RefusedError,
    RestartError,
    SourceError,
    StalePublicationError,
    TreeError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
    without_secrets,
)
from zkdeployment.log import get_logger
from zkdeployment.model.history import ForcedBy

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.syncer.syncer import Syncer, SyncReport
    from zkdeployment.daemons.telemetry.probe import Probe
    from zkdeployment.model.publication import PublicationRequest
    from zkdeployment.ports.process import Notifier
    from zkdeployment.ports.publication import PublicationStore

#: What an operator is told of an error; the log has all of it.
_LONGEST_ANSWER = 4000

#: Seconds until a request is looked at again that another syncer keeps from being served.
_SOON = 2.0

#: Which event each error is, the first that fits, and how loudly it is said.
EVENTS: tuple[tuple[type[Exception], str, str], ...] = (
    (StalePublicationError, "critical", "store-went-back"),
    (AllStopError, "critical", "all-stop"),
    (NotConvergedError, "info", "not-converged"),
    (RefusedError, "warning", "publication-refused"),
    (TreeError, "error", "tree-refused"),
    (SourceError, "error", "repository-unreadable"),
    (UnreachableError, "warning", "zookeeper-unreachable"),
    (Exception, "error", "sync-failed"),
)


class Follower:
    """Syncs every ``interval`` seconds, when woken, and when an operator asks.

    ``connect`` opens the session of ``store`` and does nothing when it is open. ``unfinished`` marks a cycle that
    does not come to its end.
    """

    def __init__(  # noqa: PLR0913  the adapters that it depends on
        self,
        syncer: Syncer,
        store: PublicationStore,
        control: Control,
        *,
        connect: Callable[[], None],
        notifier: Notifier,
        probe: Probe,
        unfinished: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._syncer = syncer
        self._store = store
        self._control = control
        self._connect = connect
        self._unfinished = unfinished
        self._notifier = notifier
        self._telemetry = SyncerTelemetry(probe, failures=[event for _, _, event in EVENTS])
        self._backoff = Backoff(first=2.0, most=60.0)
        self._watching = False
        self._waiting = False
        self._said = ""

    def run(self, interval: float) -> None:
        """Follow until asked to end; raises ``RestartError`` if the connection to ZooKeeper cannot be mended."""
        self._notifier.ready()
        while not self._control.stopping:
            self._turn(interval)
            self._telemetry.write(interval)
            self._notifier.watchdog()
            # Several syncers need not ask the repository at the same moment.
            pause = min(interval, _SOON) if self._waiting else max(interval, self._backoff.seconds)
            self._control.wait(pause * random.uniform(0.9, 1.1))  # noqa: S311  not a secret
        self._notifier.stopping()
        self._telemetry.write(interval, up=False)

    def _turn(self, interval: float) -> None:
        self._telemetry.begin()
        self._waiting = False
        try:
            with self._unfinished():
                report = self._sync()
        except RestartError:
            raise
        except ZkdeploymentError as error:
            self._backoff.reset()
            self._fail(error, interval)
        except Exception as error:  # noqa: BLE001  a defect of ours must not end every syncer
            self._backoff.fail()
            self._fail(error, interval)
        else:
            self._backoff.reset()
            self._telemetry.succeed(report, self._syncer.fetched)
            self._said = ""
            self._notifier.status(report.sentence)
            self._report(report.sentence, interval)

    def _sync(self) -> SyncReport:
        self._connect()
        if not self._watching:
            self._store.watch_requests(self._control.wake)
            self._watching = True
        request = self._store.request()
        return self._syncer.sync() if request is None else self._serve(request)

    def _fail(self, error: Exception, interval: float) -> None:
        """Report a cycle that failed: to the log, the supervisor, the metrics and ZooKeeper."""
        level, event = next((level, event) for kind, level, event in EVENTS if isinstance(error, kind))
        self._telemetry.fail(event, self._syncer.fetched)
        self._complain(error, level, event)
        if not isinstance(error, UnreachableError):
            self._report(error_message(error), interval)

    def _report(self, words: str, interval: float) -> None:
        """Give a sign of life; what keeps that from being done ends nothing, and the next look tries again."""
        try:
            self._store.report(words, interval, self._syncer.fetched)
        except Exception as error:  # noqa: BLE001  whatever it is, the next cycle tries again
            get_logger().warning("report-not-written", reason=error_message(error))

    def _serve(self, request: PublicationRequest) -> SyncReport:
        """Publish what an operator asked for, or answer why not.

        A request stands, to be served soon, if ZooKeeper interrupts that or another syncer is at work: perhaps one
        that was killed, and whose lock lasts as long as its session.
        """
        get_logger().info("publication-requested", by=request.by, reason=request.reason)
        try:
            forced = ForcedBy(request.by, request.reason)
            return self._syncer.sync(force=True, overrides=request.overrides, forced=forced, request=request)
        except (UnreachableError, RestartError):
            raise
        except LockHeldError:
            self._waiting = True
            raise
        except Exception as error:
            self._store.answer(request, without_secrets(error_message(error))[:_LONGEST_ANSWER])
            raise

    def _complain(self, error: Exception, level: str, event: str) -> None:
        """Say what is wrong: once, not every time that it is found again."""
        words = error_message(error)
        self._notifier.status(words.partition("\n")[0])
        if words == self._said:
            return
        self._said = words
        defect = None if isinstance(error, ZkdeploymentError) else error
        getattr(get_logger(), level)(event, reason=words, exc_info=defect)

"""Ports of every daemon to its machine: time, the supervisor, mail and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from zkdeployment.fleet.metrics.metric import Metric


class Clock(Protocol):
    """Time."""

    def now(self) -> float:
        """Return seconds since the epoch, for display."""

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back, for measuring."""


class Notifier(Protocol):
    """The supervisor of this process, such as systemd. Notifications are best effort and never raise."""

    @property
    def pace(self) -> float:
        """Seconds within which ``watchdog`` has to be called again; infinite if there is no watchdog."""

    def ready(self) -> None:
        """Report that the service is ready."""

    def status(self, text: str) -> None:
        """Report the current activity of the service, in one line."""

    def reloading(self) -> None:
        """Report that the configuration is being reloaded, until ``ready``."""

    def stopping(self) -> None:
        """Report that the service is shutting down."""

    def watchdog(self) -> None:
        """Report that the service is alive."""

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Return a context in which the supervisor does not apply its watchdog timeout, however long it takes."""


class MetricsSink(Protocol):
    """The place where a daemon publishes its metrics. Failures are logged and have no other effect."""

    def write(self, metrics: Iterable[Metric]) -> None:
        """Replace all published metrics."""

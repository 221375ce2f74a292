"""What every daemon needs of the machine: time, its supervisor, mail, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from zkdeployment.fleet.metrics import Metric


class Clock(Protocol):
    """Time, as an argument."""

    def now(self) -> float:
        """Seconds since the epoch, for display."""

    def monotonic(self) -> float:
        """Seconds for measuring, never set back."""


class Notifier(Protocol):
    """The supervisor of this process, such as systemd. Notifications are a courtesy: they never fail."""

    @property
    def pace(self) -> float:
        """Seconds within which ``watchdog`` has to be called again; infinite without a watchdog."""

    def ready(self) -> None:
        """Report that the service is up."""

    def status(self, text: str) -> None:
        """Report in one line what the service is doing."""

    def reloading(self) -> None:
        """Report that the configuration is read again, until ``ready``."""

    def stopping(self) -> None:
        """Report that the service is about to end."""

    def watchdog(self) -> None:
        """Report that the service is alive."""

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Have the supervisor wait for what is done inside, however long it takes."""


class Mailer(Protocol):
    """Mail to the operators. Mail is a courtesy: failures are logged and change nothing."""

    def send(self, subject: str, text: str) -> None:
        """Send one message; ``subject`` is cut to one line."""


class MetricsSink(Protocol):
    """Where a daemon publishes its metrics. Metrics are a courtesy: failures are logged and change nothing."""

    def write(self, metrics: Iterable[Metric]) -> None:
        """Replace all published metrics."""

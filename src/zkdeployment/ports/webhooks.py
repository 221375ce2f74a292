"""The ports of webhooks: the receivers, and the election of the service that sends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class WebhookOutcome(Enum):
    """What became of a request to a receiver."""

    ACCEPTED = "accepted"
    FAILED = "failed"  # a later attempt may succeed
    REFUSED = "refused"  # the receiver never accepts this event


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The outcome of a request; ``reason`` has neither the URL nor the key."""

    outcome: WebhookOutcome
    reason: str = ""


class WebhookSender(Protocol):
    """The receivers. All methods may be called from any thread."""

    def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Send one request and return its outcome within a few seconds; never raises."""


class WebhookLead(Protocol):
    """One service's contention for the right to send, and its record of what receivers got.

    Only one thread may call the methods. Except for ``release``, they raise ``UnreachableError`` while ZooKeeper
    is away.
    """

    def acquire(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the election of this service; return whether it is elected."""

    def acknowledged(self) -> Mapping[str, int]:
        """Return the last transaction whose changes a receiver got, by the digest of its URL."""

    def acknowledge(self, transactions: Mapping[str, int]) -> None:
        """Replace what ``acknowledged`` returns; raises ``LockLostError`` if this service is no longer elected."""

    def check(self) -> None:
        """Raise ``LockLostError`` if this service is no longer elected."""

    def release(self) -> None:
        """Let another service be elected; never raises."""

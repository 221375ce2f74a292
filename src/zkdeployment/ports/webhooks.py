"""The answers of the receivers of webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class WebhookOutcome(Enum):
    """The outcome of a request to a receiver."""

    ACCEPTED = "accepted"
    FAILED = "failed"  # a later attempt may succeed
    REFUSED = "refused"  # the receiver never accepts this event


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The outcome of a request; ``reason`` has neither the URL nor the key."""

    outcome: WebhookOutcome
    reason: str = ""

"""How much of the service one client may occupy, so that something remains for all others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The most connections, and so event streams, of an address, and the most event streams of a user."""

    connections_per_address: int = 250
    streams_per_user: int = 100

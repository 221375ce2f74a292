"""Who may see which events: tenants see pools, nodes and their own sessions, and nothing of the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.events.event import STREAM_KINDS, EventKind
from zkdeployment.model.user import Right

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.fleet.events.event import FleetEvent
    from zkdeployment.model.user import User

#: The kinds that need the right to read pools. Every other kind needs the right to read the fleet.
_POOLS = frozenset({EventKind.POOL, EventKind.NODE})


@dataclass(frozen=True, slots=True)
class Audience:
    """The events that a user may see: those of the ``kinds``, and of sessions.

    ``tenant`` is the id of the tenant whose sessions these are; ``None`` stands for all tenants, 0 for none.
    """

    kinds: frozenset[EventKind]
    tenant: int | None

    def sees(self, event: FleetEvent) -> bool:
        """Return whether the user may see an event."""
        if event.kind is not EventKind.SESSION:
            return event.kind in self.kinds
        return self.tenant is None or self._owns(event)

    def of_events(self, events: Iterable[FleetEvent]) -> Audience:
        """Return an audience that sees the same of these events, and is equal for most tenants."""
        if self.tenant is None or any(self._owns(event) for event in events):
            return self
        return Audience(self.kinds, 0)

    def _owns(self, event: FleetEvent) -> bool:
        return event.kind is EventKind.SESSION and event.body.get("tenant") == self.tenant


def audience_of(user: User) -> Audience:
    """Return what a user may see."""
    kinds = STREAM_KINDS
    if user.may(Right.READ_POOLS):
        kinds |= _POOLS
    if user.may(Right.READ_FLEET):
        kinds |= frozenset(EventKind) - _POOLS - {EventKind.SESSION}
    if user.may(Right.READ_ALL_SESSIONS):
        return Audience(kinds, None)
    return Audience(kinds, user.id if user.may(Right.LEASE_NODES) else 0)

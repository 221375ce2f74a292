"""The order between services in one publication: whose deployments others wait for, and how far these are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The beginning of the step of a host that waits for another service, or for the new hosts of a service.
ORDER_PREFIX = "waits for "


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """The hosts, by id and sorted, for whose deployments of one service others wait.

    ``hosts`` are all that are expected to deploy the service. ``gaining`` are those of them that did not have it
    before: the hosts that lose the service keep it until these have it.
    """

    hosts: tuple[str, ...] = ()
    gaining: tuple[str, ...] = ()

    def with_host(self, host_id: str) -> OrderEntry:
        """Return the entry with another expected host."""
        return OrderEntry(tuple(sorted({*self.hosts, host_id})), self.gaining)


@dataclass(frozen=True, slots=True)
class OrderProgress:
    """A snapshot of the progress of one entry.

    ``finished`` are the hosts that have deployed the service, or have the whole publication; ``registered`` are
    all registered hosts. ``names`` are the names of some unfinished hosts by id. ``failed`` are the hosts that
    will not deploy the service in the present rollout, with the reason.
    """

    entry: OrderEntry
    finished: frozenset[str] = frozenset()
    registered: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

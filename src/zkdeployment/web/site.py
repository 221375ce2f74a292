"""The site as browsers see it: the host names that it answers to, and whether connections are encrypted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The public side of the service.

    ``hosts`` are the names and addresses, without ports, under which browsers reach the service; an empty set
    means any. ``encrypted`` is whether browsers use ``https``.
    """

    hosts: frozenset[str] = frozenset()
    encrypted: bool = False

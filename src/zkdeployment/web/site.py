"""The site as browsers see it: the host names that it answers to, and whether connections are encrypted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The public side of the service.

    ``hosts`` are the names and addresses, without ports, under which browsers reach the service. ``authority`` is
    the host with its port, if any, of the URL that people use. ``encrypted`` is whether that URL begins with
    ``https``.
    """

    hosts: frozenset[str]
    authority: str
    encrypted: bool = False

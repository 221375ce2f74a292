"""Pokes: the notices to monitoring systems that an instance has an update."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Poke:
    """A poke of the callback of a monitoring system.

    ``flag`` is the count of the instance's flag that the poke is sent for: a success clears only that one.
    """

    instance: str
    callback: str
    flag: int

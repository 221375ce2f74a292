"""Hosts by their numbers in a rollout's list of hosts, as ranges in text: short, although there are thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text: ``0-3 7 9-12``."""
    if len(numbers) == 1:
        return str(numbers[0])
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def hosts_in(hosts: Sequence[str], text: str) -> list[str]:
    """Return those of the ``hosts`` whose numbers ``ranges`` encoded; raises ``ValueError`` for other text."""
    selected: list[str] = []
    for part in text.split():
        first, _, last = part.partition("-")
        selected += hosts[int(first) : int(last or first) + 1]
    return selected


def values_by_host(hosts: Sequence[str], values: Any) -> Mapping[str, Any]:
    """Return values by host, which are encoded as a mapping or as a list of values with their hosts."""
    if isinstance(values, dict):
        return values
    return {host: value for value, text in values for host in hosts_in(hosts, text)}

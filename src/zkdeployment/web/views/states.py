"""The states of hosts as pages show them: in order of urgency, each with a sign, a word and a meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.host_status import HostState

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class StateSign:
    """The sign of a state: it differs in shape from all others, so that colour is never the only difference.

    ``name`` is the word that commands print, too. ``outline`` is the shape on the map, a path that begins at the
    upper left corner of a cell of ten by ten units. The shape of converged hosts is a point: the style sheet makes
    it a dot, so that the map of a large fleet is small.
    """

    name: str
    meaning: str
    outline: str


#: The signs of all states, the most urgent first.
SIGNS: Mapping[HostState, StateSign] = {
    HostState.FAILED: StateSign("failed", "stopped with an error", "m0 0h10v10h-10z"),
    HostState.ABSENT: StateSign("absent", "its agent does not run", "m.5.5h9v9h-9zm2 2v5h5v-5z"),
    HostState.DEPLOYING: StateSign("deploying", "works on it now", "m5 0l5 5l-5 5l-5-5z"),
    HostState.BEHIND: StateSign("behind", "waits with another revision", "m.5 5h9v4.5h-9z"),
    HostState.CONVERGED: StateSign("converged", "has the wanted revision", "m5 5h0"),
    HostState.EXCLUDED: StateSign("excluded", "in no group of the strategy", "m3.5 3.5h3v3h-3z"),
    HostState.UNKNOWN: StateSign("unknown", "no revision is wanted", "m2 4h6v2h-6z"),
}


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 host``, ``2,000 hosts``."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"

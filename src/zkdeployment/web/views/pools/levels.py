"""The cards of pools: how many nodes are ready, made, leased or failed, and why nodes are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.pools.node import IN_SESSION, NodeState
from zkdeployment.pools.overview import ShortageCause
from zkdeployment.web.views.acts import ActLink
from zkdeployment.web.views.moments import deadline, moment
from zkdeployment.web.views.pools.links import form_page
from zkdeployment.web.views.states import count_text

if TYPE_CHECKING:
    from zkdeployment.pools.overview import PoolOverview
    from zkdeployment.web.views.moments import Moment

#: The parts of a pool's bar in their order: the word, the class of its colour, and the states.
_PARTS = (
    ("ready", "converged", frozenset({NodeState.READY})),
    ("being made", "deploying", frozenset({NodeState.PROVISIONING})),
    ("leased", "absent", IN_SESSION),
    ("being cleaned", "behind", frozenset({NodeState.DEPROVISIONING})),
    ("failed", "failed", frozenset({NodeState.FAILED})),
)

#: The tone of a pool that lacks nodes, by the cause.
_TONES = {
    ShortageCause.FILLING: "busy",
    ShortageCause.WAITING: "busy",
    ShortageCause.NO_NODES: "halted",
    ShortageCause.FAILURES: "bad",
    ShortageCause.NO_WORKER: "bad",
}

#: The causes that another attempt does not change.
_UNDER_WAY = frozenset({ShortageCause.FILLING, ShortageCause.NO_WORKER})

#: The units of a bar.
_WIDTH = 1000


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar: its colour, where it begins, and its width."""

    colour: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class PoolCard:
    """A pool; ``level`` is ``None`` if it lends no nodes.

    ``counts`` are the numbers of nodes with a word and a colour, without zeros. ``lack`` explains why nodes are
    missing, or is empty; ``since`` is when the pool fell below its level, and ``again`` when it is filled after
    failures.
    """

    name: str
    mechanism: str
    level: int | None
    ready: int
    tone: str
    bar: tuple[BarPart, ...]
    counts: tuple[tuple[int, str, str], ...]
    lack: str
    since: Moment | None
    again: Moment | None
    acts: tuple[ActLink, ...]


def pool_card(found: PoolOverview, now: float, *, may_lease: bool, may_manage: bool) -> PoolCard:
    """Return the card of a pool, with the acts that the user may do."""
    shortage = found.shortage
    counts = tuple(
        (count, word, colour)
        for word, colour, states in _PARTS
        if (count := sum(found.states.get(state, 0) for state in states))
    )
    lack = "" if shortage is None else f"{count_text(shortage.missing, 'node')} missing: {shortage.reason}"
    return PoolCard(
        name=found.name,
        mechanism=found.mechanism,
        level=found.level,
        ready=found.ready,
        tone=pool_tone(found),
        bar=_bar(counts, found.level or 0),
        counts=counts,
        lack=lack,
        since=None if shortage is None else moment(shortage.since, now),
        again=deadline(found.next_filling, now) if shortage is not None and found.failures else None,
        acts=tuple(_acts(found, may_lease=may_lease, may_manage=may_manage)),
    )


def pool_tone(found: PoolOverview) -> str:
    """Return the tone of a pool: the colours of the style sheet."""
    if found.level is None:
        return "planned"
    return "good" if found.shortage is None else _TONES[found.shortage.cause]


def _acts(found: PoolOverview, *, may_lease: bool, may_manage: bool) -> list[ActLink]:
    acts = []
    if may_lease and found.level is not None and found.ready:
        acts.append(ActLink("Request", form_page("request", pool=found.name)))
    if may_manage and found.shortage is not None and found.shortage.cause not in _UNDER_WAY:
        acts.append(ActLink("Fill now", form_page("fill", pool=found.name)))
    return acts


def _bar(counts: tuple[tuple[int, str, str], ...], level: int) -> tuple[BarPart, ...]:
    """Return the parts of the bar; nodes that are missing leave the end of the bar empty."""
    present = sum(count for count, _, _ in counts)
    here = sum(count for count, word, _ in counts if word in {"ready", "being made"})
    total = present + max(0, level - here)
    parts, start = [], 0
    for count, _, colour in counts:
        end = start + count
        parts.append(BarPart(colour, start * _WIDTH // total, (end * _WIDTH // total) - (start * _WIDTH // total)))
        start = end
    return tuple(parts)

"""Which steps of a run depend on each other, and which other runs have to be tried because of that.

A step is the execution of one request, with everything that its answer and its watches cause at once. Two steps
of different clients depend on each other if one writes what the other one reads or writes. Steps without
dependence commute: runs that differ only in their order have the same outcome. Time passes only when no request
waits. The passage of time separates steps: each instant has an order of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

#: The channel of the steps in which time passes.
TIME = "time"


def fingerprint(*parts: object) -> str:
    """Return a short text that differs for different parts."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=10).hexdigest()


def spelled(channel: str, variant: str) -> str:
    """Return the choice of a step: its channel, and the fault or act that comes with it."""
    return f"{channel}: {variant}" if variant else channel


@dataclass(slots=True)
class Step:
    """A step that was executed: which client's request, with which fault or act, and what it touched.

    ``variants`` are the faults and acts that could have come with it. ``past`` are the places of the steps of the
    same instant on which it depends, directly or not.
    """

    channel: str
    variant: str = ""
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    variants: list[str] = field(default_factory=list)
    past: frozenset[int] = frozenset()
    key: str = ""

    @property
    def choice(self) -> str:
        """The choice that leads to this step."""
        return spelled(self.channel, self.variant)

    def depends_on(self, other: Step) -> bool:
        """Whether the order of this step and another one matters."""
        if self.channel == other.channel:
            return True
        return not (self.writes.isdisjoint(other.writes) and self.writes.isdisjoint(other.reads)) or not (
            other.writes.isdisjoint(self.reads)
        )


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another run to try: the first ``whole`` choices of a run, those at ``further`` places, then ``choice``.

    ``key`` is the same for alternatives that differ only in the order of independent steps. ``kind`` is ``order``,
    ``fault`` or ``act``.
    """

    kind: str
    whole: int
    further: tuple[int, ...]
    choice: str
    key: str

    def choices(self, run: Sequence[str]) -> tuple[str, ...]:
        """Return the choices with which the other run begins."""
        return (*run[: self.whole], *(run[place] for place in self.further), self.choice)


def order(steps: Sequence[Step]) -> None:
    """Set ``past`` and ``key`` of the steps of a run."""
    begin, before = 0, ""
    for place, step in enumerate(steps):
        if step.channel == TIME:
            before = fingerprint(step.variant, before, sorted(each.key for each in steps[begin:place]))
            step.key, begin = before, place + 1
            continue
        past: set[int] = set()
        for other in range(place - 1, begin - 1, -1):
            if other not in past and step.depends_on(steps[other]):
                past |= {other, *steps[other].past}
        step.past = frozenset(past)
        step.key = fingerprint(step.choice, before, sorted(steps[other].key for other in past))


def alternatives(steps: Sequence[Step], first: int, kinds: Collection[str]) -> Iterator[Alternative]:
    """Yield the other runs that a run leads to by one change of one of the given ``kinds``, from a place on."""
    begin = 0  # of the instant
    for place, step in enumerate(steps):
        if place >= first:
            whole, past = (place, ()) if step.channel == TIME else (begin, tuple(sorted(step.past)))
            for variant in () if step.variant else step.variants:
                kind = "act" if variant.startswith("act ") else "fault"
                if kind in kinds:
                    key = fingerprint(kind, variant, step.key)
                    yield Alternative(kind, whole, past, spelled(step.channel, variant), key)
            if "order" in kinds and step.channel != TIME:
                yield from _reversals(steps, begin, place)
        if step.channel == TIME:
            begin = place + 1


def _reversals(steps: Sequence[Step], begin: int, place: int) -> Iterator[Alternative]:
    """Yield the runs in which a step comes before a step of the same instant with which it races."""
    step = steps[place]
    before = steps[begin - 1].key if begin else ""
    for other in step.past:
        is_indirect = any(other in steps[middle].past for middle in step.past)
        if not is_indirect and steps[other].channel != step.channel:
            kept = tuple(sorted(middle for middle in step.past if middle > other))
            earlier = (steps[middle].key for middle in (*range(begin, other), *kept))
            key = fingerprint("order", before, sorted(earlier), step.channel)
            yield Alternative("order", other, kept, step.channel, key)

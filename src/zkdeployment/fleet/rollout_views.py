"""Views of a rollout: what ``rollout show`` draws and prints, and what is different from the last time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.fleet.rollouts import (
    GroupState,
    RolloutProgressState,
    group_state,
    group_words,
    host_words,
    is_due,
    last_movement,
    rollout_state,
    rollout_words,
)
from zkdeployment.rollout.groups import unmatched_selectors
from zkdeployment.rollout.state_machine import HostProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.strategy import Facts
    from zkdeployment.model.tree import Value
    from zkdeployment.rollout.state import RolloutState


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group: ``hosts`` by id with the state of each in a word.

    ``words`` say why it failed or what it waits for; ``depth`` is how many groups are above it.
    """

    name: str
    critical: bool
    state: GroupState
    depends_on: tuple[str, ...] = ()
    depth: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)
    words: str = ""

    def count(self, *states: HostProgress) -> int:
        """How many of its hosts are in one of these states."""
        return sum(1 for word in self.hosts.values() if word in {state.value for state in states})

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it."""
        return {
            "name": self.name,
            "critical": self.critical,
            "state": self.state.value,
            "depends_on": [*self.depends_on],
            "successful": self.count(HostProgress.SUCCESS),
            "failed": self.count(HostProgress.FAILURE),
            "total": len(self.hosts),
            "words": self.words,
            "hosts": dict(self.hosts),
        }


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """One rollout; ``words`` say in a sentence how it stands, ``errors`` and states of ``hosts`` are by host id.

    Times are in seconds since the epoch; ``moved`` is when anything last happened. ``led``: somebody coordinates.
    ``due``: it failed, somebody resumed, and another attempt is to begin. ``warnings`` say what is dubious about
    its strategy.
    """

    id: str
    revision: Revision
    strategy: str
    state: RolloutProgressState
    words: str
    groups: tuple[GroupStatus, ...]
    begun: float
    moved: float
    led: bool = True
    due: bool = False
    ended: float | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, HostProgress] = field(default_factory=dict)
    acts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing follows any more."""
        return self.ended is not None and not self.due

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it."""
        return {
            "id": self.id,
            "revision": self.revision,
            "strategy": self.strategy,
            "state": self.state.value,
            "words": self.words,
            "coordinator": self.led,
            "begun": self.begun,
            "moved": self.moved,
            "ended": self.ended,
            "groups": [group.to_json() for group in self.groups],
            "counts": {state.value: count for state, count in Counter(self.hosts.values()).items()},
            "errors": dict(self.errors),
            "acts": [*self.acts],
            "warnings": [*self.warnings],
        }


def rollout_status(
    running: RolloutState,
    *,
    led: bool,
    now: float,
    governed: bool = False,
    known: Mapping[str, Facts] | None = None,
) -> RolloutStatus:
    """Show a rollout; ``led`` says whether a coordinator is there. ``now`` is in seconds since the epoch.

    ``governed``: hosts take up its revision by the strategy, now. With all ``known`` hosts it is checked that each
    selector selects any of them.
    """
    due = governed and is_due(running)
    waits = f"; another attempt has not begun{'' if led else ': no coordinator runs'}" if due else ""
    return RolloutStatus(
        id=running.id,
        revision=running.revision,
        strategy=running.rollout.strategy.name,
        state=rollout_state(running),
        words=rollout_words(running, led=led) + waits,
        groups=tuple(_groups(running, now)),
        begun=running.begun,
        moved=last_movement(running),
        led=led,
        due=due,
        ended=running.ended,
        errors=running.errors,
        hosts=running.rollout.hosts,
        acts=tuple(str(one.act) for one in running.acts),
        warnings=() if known is None else unmatched_selectors(running.rollout.strategy, known),
    )


def rollout_changes(before: RolloutStatus | None, after: RolloutStatus) -> Iterator[str]:
    """Say line by line what is different; all of it the first time."""
    former = {} if before is None else {group.name: group for group in before.groups}
    for warning in after.warnings:
        if before is None or warning not in before.warnings:
            yield f"warning: {warning}"
    for group in after.groups:
        had = former.get(group.name)
        words = f" ({group.words})" if group.words else ""
        if had is None or had.state is not group.state:
            yield f"{group.name}: {group.state.value}{words}"
        for host, word in group.hosts.items():
            if had is not None and had.hosts.get(host) != word:
                yield f"{group.name}: {host}: {word}"
    for host, error in after.errors.items():
        if before is None or host not in before.errors:
            yield f"{host}: failed: {error}"
    if before is None or before.words != after.words:
        yield f"rollout {after.id}: {after.words}"


def _groups(running: RolloutState, now: float) -> Iterator[GroupStatus]:
    """Return the groups, parents before those that depend on them, each group's children right after it."""
    words = host_words(running)
    depths: dict[str, int] = {}
    todo = list(running.rollout.strategy.groups)
    while todo:
        ready = [one for one in todo if depths.keys() >= {*one.depends_on}]
        order = [*depths]
        group = max(ready, key=lambda one: max(map(order.index, one.depends_on), default=-1))
        todo.remove(group)
        depths[group.name] = max((depths[parent] + 1 for parent in group.depends_on), default=0)
        hosts = sorted(running.rollout.members[group.name])
        yield GroupStatus(
            name=group.name,
            critical=group.critical,
            state=group_state(running, group.name),
            depends_on=group.depends_on,
            depth=depths[group.name],
            hosts={host: words.get(host, HostProgress.NOT_STARTED.value) for host in hosts},
            words=group_words(running, group, now),
        )

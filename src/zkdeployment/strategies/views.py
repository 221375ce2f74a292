"""Views of a rollout: the values that ``rollout show`` draws and prints, and the changes between two of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.strategies.groups import unmatched_selectors
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.states import (
    GroupState,
    RolloutProgressState,
    describe_group,
    describe_rollout,
    group_state,
    host_states,
    is_attempt_due,
    last_movement,
    rollout_state,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.host import Facts
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.tree.values import Value


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group of a rollout, with the state of each of its ``hosts`` by host id.

    ``description`` is the reason of a failure, the current work, or the obstacle. ``depth`` is the number of
    groups on the longest path of dependencies above the group.
    """

    name: str
    critical: bool
    state: GroupState
    depends_on: tuple[str, ...] = ()
    depth: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)
    description: str = ""

    def count(self, *states: HostProgress) -> int:
        """Return how many of the group's hosts are in one of these states."""
        return sum(1 for state in self.hosts.values() if state in {counted.value for counted in states})

    def to_json(self) -> dict[str, Value]:
        """Return the group as ``-o json`` prints it."""
        return {
            "name": self.name,
            "critical": self.critical,
            "state": self.state.value,
            "depends_on": [*self.depends_on],
            "successful": self.count(HostProgress.SUCCESS),
            "failed": self.count(HostProgress.FAILURE),
            "total": len(self.hosts),
            "words": self.description,
            "hosts": dict(self.hosts),
        }


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """The status of a rollout; ``errors`` and the states of ``hosts`` are keyed by host id.

    ``description`` is one sentence on the present state. Times are in seconds since the epoch; ``moved`` is the
    time of the last change. ``led`` means that a coordinator runs. ``due`` means that the rollout failed, an
    operator resumed the fleet, and the coordinator has to begin another attempt. ``warnings`` name mistakes in the
    strategy.
    """

    id: str
    revision: Revision
    strategy: str
    state: RolloutProgressState
    description: str
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
        """Whether the rollout ended, and no further attempt is due."""
        return self.ended is not None and not self.due

    def to_json(self) -> dict[str, Value]:
        """Return the rollout as ``-o json`` prints it."""
        return {
            "id": self.id,
            "revision": self.revision,
            "strategy": self.strategy,
            "state": self.state.value,
            "words": self.description,
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
    state: RolloutState,
    *,
    led: bool,
    now: float,
    governed: bool = False,
    known: Mapping[str, Facts] | None = None,
) -> RolloutStatus:
    """Return the status of a rollout at ``now``, in seconds since the epoch.

    ``led`` means that a coordinator runs, ``governed`` that hosts deploy the rollout's revision under its strategy
    at present. ``known`` are the facts of all known hosts by id; selectors that match none of them are warnings.
    """
    due = governed and is_attempt_due(state)
    attempt = f"; another attempt has not begun{'' if led else ': no coordinator runs'}" if due else ""
    return RolloutStatus(
        id=state.id,
        revision=state.revision,
        strategy=state.rollout.strategy.name,
        state=rollout_state(state),
        description=describe_rollout(state, led=led) + attempt,
        groups=tuple(_groups(state, now)),
        begun=state.begun,
        moved=last_movement(state),
        led=led,
        due=due,
        ended=state.ended,
        errors=state.errors,
        hosts=state.rollout.hosts,
        acts=tuple(str(taken.act) for taken in state.acts),
        warnings=() if known is None else unmatched_selectors(state.rollout.strategy, known),
    )


def rollout_changes(before: RolloutStatus | None, after: RolloutStatus) -> Iterator[str]:
    """Yield a line for each change between two views; without ``before``, a line for everything."""
    former = {} if before is None else {group.name: group for group in before.groups}
    for warning in after.warnings:
        if before is None or warning not in before.warnings:
            yield f"warning: {warning}"
    for group in after.groups:
        previous = former.get(group.name)
        description = f" ({group.description})" if group.description else ""
        if previous is None or previous.state is not group.state:
            yield f"{group.name}: {group.state.value}{description}"
        for host, state in group.hosts.items():
            if previous is not None and previous.hosts.get(host) != state:
                yield f"{group.name}: {host}: {state}"
    for host, error in after.errors.items():
        if before is None or host not in before.errors:
            yield f"{host}: failed: {error}"
    if before is None or before.description != after.description:
        yield f"rollout {after.id}: {after.description}"


def _groups(state: RolloutState, now: float) -> Iterator[GroupStatus]:
    """Yield the groups, parents before those that depend on them, each group's children right after it."""
    states = host_states(state)
    depths: dict[str, int] = {}
    remaining = list(state.rollout.strategy.groups)
    while remaining:
        ready = [group for group in remaining if depths.keys() >= {*group.depends_on}]
        order = [*depths]
        group = max(ready, key=lambda group: max(map(order.index, group.depends_on), default=-1))
        remaining.remove(group)
        depths[group.name] = max((depths[parent] + 1 for parent in group.depends_on), default=0)
        hosts = sorted(state.rollout.members[group.name])
        yield GroupStatus(
            name=group.name,
            critical=group.critical,
            state=group_state(state, group.name),
            depends_on=group.depends_on,
            depth=depths[group.name],
            hosts={host: states.get(host, HostProgress.NOT_STARTED.value) for host in hosts},
            description=describe_group(state, group, now),
        )

"""State machines of the manual, drawn from the tables of the code.

The states of a group are a view of a rollout; a test compares their transitions with those of simulated rollouts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pictures.drawing import Picture
from zkdeployment.agent.daemon.agent import CYCLE_TRANSITIONS, CycleState
from zkdeployment.base.cluster import CLUSTER_TRANSITIONS, ClusterState
from zkdeployment.checks.rules.instance import CheckState
from zkdeployment.checks.rules.workflow import WORKFLOW
from zkdeployment.strategies.views import GroupState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum

_HEIGHT = 34  # of a box
_COLOURS = {
    **dict.fromkeys(("success", "done", "running", "active"), "good"),
    **dict.fromkeys(("failed", "stopped", "rollout_failed", "deprovision_failed"), "bad"),
}
_CALM = dict.fromkeys(("held", "importing", "baking", "waiting", "moved", "blocked"), "wait")


class Transition(NamedTuple):
    """A change of state, its cause, and how far its arrow bends to its left."""

    source: Enum
    target: Enum
    cause: str
    bend: float = 0


@dataclass(frozen=True)
class Machine:
    """The states of an enum, each with the centre of its box, and the transitions.

    ``width`` is that of a box, and ``causes_from`` where the causes begin in the list below.
    """

    name: str
    title: str
    places: Mapping[Enum, tuple[float, float]]
    transitions: tuple[Transition, ...]
    width: int = 108
    causes_from: int = 210

    def draw(self) -> Picture:
        """Return the picture, with the causes as a numbered list below."""
        causes = "; ".join(
            f"{arrow.source.value} to {arrow.target.value}: {arrow.cause}" for arrow in self.transitions
        )
        picture = Picture(self.name, self.title, causes)
        for number, transition in enumerate(self.transitions, 1):
            self._draw(picture, number, transition)
        width, height = self.width, _HEIGHT
        for state, (x, y) in self.places.items():
            kind = (_COLOURS | _CALM).get(state.value, "accent")
            picture.box(x - width / 2, y - height / 2, width, height, kind=kind)
            picture.text(x, y + 5, state.value, "strong mid")
        top = picture.height + 30
        for number, transition in enumerate(self.transitions, 1):
            _number(picture, 14, top, number)
            picture.text(34, top + 4, f"{transition.source.value} → {transition.target.value}", "strong small")
            for cause in transition.cause.split("; or "):
                picture.text(self.causes_from, top + 4, cause, "small")
                top += 24
        return picture

    def _draw(self, picture: Picture, number: int, transition: Transition) -> None:
        start, end = self.places[transition.source], self.places[transition.target]
        middle = _bent(start, end, transition.bend)
        (ax, ay), (bx, by) = self._border(start, middle), self._border(end, middle)
        picture.arrow(f"M{ax:.1f} {ay:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {bx:.1f} {by:.1f}")
        _number(picture, (ax + 2 * middle[0] + bx) / 4, (ay + 2 * middle[1] + by) / 4, number)

    def _border(self, centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
        """Return where the line from a box's centre leaves the box."""
        (x, y), (tx, ty) = centre, towards
        dx, dy = tx - x, ty - y
        scale = min(self.width / 2 / abs(dx) if dx else math.inf, _HEIGHT / 2 / abs(dy) if dy else math.inf)
        return x + dx * scale, y + dy * scale


def _number(picture: Picture, x: float, y: float, number: int) -> None:
    picture.circle(round(x, 1), round(y, 1), 9.5, "number")
    picture.text(round(x, 1), round(y + 4, 1), str(number), "small mid")


def _bent(start: tuple[float, float], end: tuple[float, float], bend: float) -> tuple[float, float]:
    """Return the control point of a curve that bends so many pixels to the left of its direction."""
    (ax, ay), (bx, by) = start, end
    length = math.hypot(bx - ax, by - ay)
    return (ax + bx) / 2 + (by - ay) / length * bend, (ay + by) / 2 - (bx - ax) / length * bend


GROUP = Machine(
    "group",
    "The states of a group in a rollout",
    {
        GroupState.WAITING: (86, 52),
        GroupState.PREPARING: (268, 52),
        GroupState.DEPLOYING: (450, 52),
        GroupState.BAKING: (632, 52),
        GroupState.FAILED: (268, 172),
        GroupState.OPERATOR: (450, 232),
        GroupState.SUCCESS: (632, 172),
        GroupState.UNFINISHED: (86, 232),
    },
    (
        Transition(
            GroupState.WAITING,
            GroupState.PREPARING,
            "the groups it depends on succeeded, its window is open; promoted if manual",
        ),
        Transition(
            GroupState.WAITING,
            GroupState.UNFINISHED,
            "the rollout was aborted or superseded; a group that has begun changes in the same way",
        ),
        Transition(
            GroupState.WAITING, GroupState.FAILED, "a group that it depends on failed: it is not attempted"
        ),
        Transition(
            GroupState.PREPARING, GroupState.DEPLOYING, "all hosts reported, and the success criteria are met"
        ),
        Transition(
            GroupState.PREPARING, GroupState.FAILED, "the success criteria are missed, or a time limit has passed"
        ),
        Transition(GroupState.DEPLOYING, GroupState.BAKING, "all hosts reported, and the group has a bake time"),
        Transition(
            GroupState.DEPLOYING, GroupState.SUCCESS, "all hosts reported, and the success criteria are met"
        ),
        Transition(
            GroupState.DEPLOYING, GroupState.FAILED, "the success criteria are missed, or a time limit has passed"
        ),
        Transition(GroupState.BAKING, GroupState.DEPLOYING, "an absent host returned: it is deployed, too", -46),
        Transition(GroupState.BAKING, GroupState.SUCCESS, "the bake time is over, and the criteria are still met"),
        Transition(
            GroupState.BAKING,
            GroupState.FAILED,
            "hosts failed or disappeared: the criteria are missed; or a metric failed",
        ),
        Transition(
            GroupState.BAKING,
            GroupState.OPERATOR,
            "metrics had no passed measurement until the progress deadline was over",
        ),
        Transition(GroupState.OPERATOR, GroupState.SUCCESS, "an operator promoted the group"),
        Transition(GroupState.OPERATOR, GroupState.FAILED, "an operator failed the group"),
        Transition(GroupState.SUCCESS, GroupState.FAILED, "late hosts failed: the criteria are missed"),
    ),
    width=164,
    causes_from=250,
)


def _from_table(
    table: Mapping[tuple[Enum, Enum], Enum], bends: Mapping[tuple[Enum, Enum], float]
) -> tuple[Transition, ...]:
    """Return the transitions of a (state, event) table; events between the same states share an arrow."""
    causes: dict[tuple[Enum, Enum], list[str]] = {}
    for (source, event), target in table.items():
        if source is not target:
            causes.setdefault((source, target), []).append(event.value)
    return tuple(Transition(*ends, "; or ".join(events), bends.get(ends, 0)) for ends, events in causes.items())


_PAIR = 22  # how far two arrows in opposite directions bend

CLUSTER = Machine(
    "cluster",
    "The states of the cluster",
    {
        ClusterState.RUNNING: (360, 40),
        ClusterState.STOPPED: (360, 160),
        ClusterState.HELD: (640, 40),
        ClusterState.IMPORTING: (80, 40),
    },
    _from_table(
        CLUSTER_TRANSITIONS,
        dict.fromkeys(itertools.permutations((ClusterState.RUNNING, ClusterState.STOPPED)), _PAIR)
        | dict.fromkeys(itertools.permutations((ClusterState.RUNNING, ClusterState.HELD)), _PAIR)
        | dict.fromkeys(itertools.permutations((ClusterState.RUNNING, ClusterState.IMPORTING)), _PAIR),
    ),
)

AGENT = Machine(
    "agent",
    "The states of an agent's cycle",
    {
        CycleState.READING: (90, 110),
        CycleState.HELD: (90, 24),
        CycleState.MOVED: (90, 196),
        CycleState.DEPLOYING: (370, 110),
        CycleState.DONE: (640, 50),
        CycleState.FAILED: (640, 170),
    },
    _from_table(
        CYCLE_TRANSITIONS,
        {
            (CycleState.READING, CycleState.DONE): 16,
            (CycleState.READING, CycleState.FAILED): -16,
        },
    ),
)

#: The changes of a configuration's state, without the events that discard it.
CHECK_TRANSITIONS = {key: step.state for key, step in WORKFLOW.items() if step.state is not None}

CHECK = Machine(
    "check",
    "The states of a configuration of a check instance",
    {
        CheckState.AWAITING_COMPUTATION: (92, 24),
        CheckState.COMPUTED: (360, 24),
        CheckState.BLOCKED: (92, 124),
        CheckState.AWAITING_ROLLOUT: (360, 124),
        CheckState.ROLLOUT_IN_PROGRESS: (360, 224),
        CheckState.ROLLOUT_FAILED: (628, 224),
        CheckState.ACTIVE: (360, 324),
        CheckState.AWAITING_DEPROVISION: (360, 424),
        CheckState.DEPROVISION_FAILED: (92, 524),
        CheckState.DEPROVISION_IN_PROGRESS: (360, 524),
        CheckState.DEPROVISIONED: (360, 624),
        CheckState.AWAITING_DELETION: (360, 764),
    },
    _from_table(
        CHECK_TRANSITIONS,
        {
            (CheckState.AWAITING_ROLLOUT, CheckState.AWAITING_DEPROVISION): -250,
            (CheckState.AWAITING_ROLLOUT, CheckState.AWAITING_DELETION): 330,
            (CheckState.BLOCKED, CheckState.AWAITING_DELETION): -70,
            (CheckState.ROLLOUT_FAILED, CheckState.AWAITING_DELETION): 90,
            (CheckState.ROLLOUT_IN_PROGRESS, CheckState.ROLLOUT_FAILED): -16,
            (CheckState.ROLLOUT_FAILED, CheckState.ROLLOUT_IN_PROGRESS): -16,
            (CheckState.DEPROVISION_IN_PROGRESS, CheckState.DEPROVISION_FAILED): -16,
            (CheckState.DEPROVISION_FAILED, CheckState.DEPROVISION_IN_PROGRESS): -16,
        },
    ),
    width=176,
    causes_from=372,
)

MACHINES = (GROUP, CLUSTER, AGENT, CHECK)

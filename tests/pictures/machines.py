"""State machines: every state of an enum of the code, and the transitions between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pictures.drawing import Picture
from zkdeployment.daemons.agent.agent import Outcome
from zkdeployment.fleet.rollout_states import GroupState
from zkdeployment.model.cluster import ClusterState

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOX = (108, 34)
_COLOURS = {"success": "good", "done": "good", "running": "good", "failed": "bad", "stopped": "bad"}
_CALM = {"held": "wait", "importing": "wait", "baking": "wait", "waiting": "wait", "moved": "wait"}


class Transition(NamedTuple):
    """A change of state, its cause, and how far its arrow bends to its left."""

    source: Enum
    target: Enum
    cause: str
    bend: float = 0


@dataclass(frozen=True)
class Machine:
    """The states of an enum, each with the centre of its box, and the transitions."""

    name: str
    title: str
    places: Mapping[Enum, tuple[float, float]]
    transitions: tuple[Transition, ...]

    def draw(self) -> Picture:
        """Draw it, with the causes as a numbered list below."""
        causes = "; ".join(f"{one.source.value} to {one.target.value}: {one.cause}" for one in self.transitions)
        picture = Picture(self.name, self.title, causes)
        for number, transition in enumerate(self.transitions, 1):
            self._draw(picture, number, transition)
        width, height = _BOX
        for state, (x, y) in self.places.items():
            kind = (_COLOURS | _CALM).get(state.value, "accent")
            picture.box(x - width / 2, y - height / 2, width, height, kind=kind)
            picture.text(x, y + 5, state.value, "strong mid")
        top = picture.height + 30
        for number, transition in enumerate(self.transitions, 1):
            y = top + 24 * (number - 1)
            _number(picture, 14, y, number)
            picture.text(34, y + 4, f"{transition.source.value} → {transition.target.value}", "strong small")
            picture.text(210, y + 4, transition.cause, "small")
        return picture

    def _draw(self, picture: Picture, number: int, transition: Transition) -> None:
        start, end = self.places[transition.source], self.places[transition.target]
        middle = _bent(start, end, transition.bend)
        (ax, ay), (bx, by) = _border(start, middle), _border(end, middle)
        picture.arrow(f"M{ax:.1f} {ay:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {bx:.1f} {by:.1f}")
        _number(picture, (ax + 2 * middle[0] + bx) / 4, (ay + 2 * middle[1] + by) / 4, number)


def _number(picture: Picture, x: float, y: float, number: int) -> None:
    picture.circle(round(x, 1), round(y, 1), 9.5, "number")
    picture.text(round(x, 1), round(y + 4, 1), str(number), "small mid")


def _bent(start: tuple[float, float], end: tuple[float, float], bend: float) -> tuple[float, float]:
    """Return the control point of a curve that bends so many pixels to the left of its direction."""
    (ax, ay), (bx, by) = start, end
    length = math.hypot(bx - ax, by - ay)
    return (ax + bx) / 2 + (by - ay) / length * bend, (ay + by) / 2 - (bx - ax) / length * bend


def _border(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from a box's centre leaves the box."""
    (x, y), (tx, ty) = centre, towards
    dx, dy = tx - x, ty - y
    scale = min(_BOX[0] / 2 / abs(dx) if dx else math.inf, _BOX[1] / 2 / abs(dy) if dy else math.inf)
    return x + dx * scale, y + dy * scale


GROUP = Machine(
    "group",
    "The states of a group in a rollout",
    {
        GroupState.WAITING: (62, 52),
        GroupState.PREPARING: (262, 52),
        GroupState.DEPLOYING: (462, 52),
        GroupState.BAKING: (656, 52),
        GroupState.FAILED: (362, 172),
        GroupState.SUCCESS: (656, 172),
    },
    (
        Transition(
            GroupState.WAITING,
            GroupState.PREPARING,
            "the groups it depends on succeeded, its window is open; promoted if manual",
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
        Transition(GroupState.BAKING, GroupState.FAILED, "hosts failed or disappeared: the criteria are missed"),
        Transition(GroupState.SUCCESS, GroupState.FAILED, "late hosts failed: the criteria are missed"),
    ),
)

CLUSTER = Machine(
    "cluster",
    "The states of the cluster",
    {
        ClusterState.RUNNING: (360, 40),
        ClusterState.STOPPED: (360, 160),
        ClusterState.HELD: (640, 40),
        ClusterState.IMPORTING: (80, 40),
    },
    (
        Transition(
            ClusterState.RUNNING,
            ClusterState.STOPPED,
            "a host or a critical group failed; stop; rollout abort",
            22,
        ),
        Transition(
            ClusterState.STOPPED, ClusterState.RUNNING, "resume; with --latest after the next publication", 22
        ),
        Transition(ClusterState.RUNNING, ClusterState.HELD, "hold", 22),
        Transition(ClusterState.HELD, ClusterState.RUNNING, "resume, or the next publication", 22),
        Transition(
            ClusterState.RUNNING,
            ClusterState.IMPORTING,
            "a publication starts that needs several transactions",
            26,
        ),
        Transition(ClusterState.IMPORTING, ClusterState.RUNNING, "its last transaction", 26),
        Transition(ClusterState.IMPORTING, ClusterState.STOPPED, "stop, or a host failed in its current step"),
        Transition(ClusterState.HELD, ClusterState.STOPPED, "stop, or a host failed in its current step"),
    ),
)


class _Cycle(Enum):
    """The states of an agent that are not outcomes."""

    READ = "read, plan"
    WORK = "execute"


AGENT = Machine(
    "agent",
    "The outcomes of an agent's cycle",
    {
        _Cycle.READ: (90, 110),
        Outcome.HELD: (90, 24),
        Outcome.MOVED: (90, 196),
        _Cycle.WORK: (370, 110),
        Outcome.DONE: (640, 50),
        Outcome.FAILED: (640, 170),
    },
    (
        Transition(_Cycle.READ, Outcome.HELD, "the cluster is stopped, held or importing, or ZooKeeper lost data"),
        Transition(_Cycle.READ, Outcome.DONE, "the host already has the cluster version", 16),
        Transition(_Cycle.READ, _Cycle.WORK, "the host has another version; with a strategy, it is its turn"),
        Transition(
            _Cycle.READ, Outcome.FAILED, "the host failed before in this rollout, which continues without it", -16
        ),
        Transition(_Cycle.READ, Outcome.MOVED, "ZooKeeper is unreachable, or nodes changed while they were read"),
        Transition(_Cycle.WORK, Outcome.DONE, "every step succeeded; the version is recorded"),
        Transition(_Cycle.WORK, Outcome.FAILED, "a step failed: the fleet stops, or the host's group is judged"),
        Transition(_Cycle.WORK, Outcome.MOVED, "the cluster version changed, or the agent is asked to end"),
    ),
)

MACHINES = (GROUP, CLUSTER, AGENT)

"""The pictures of the manual are current and agree with the code."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from pictures.catalogue import DIRECTORY, pictures
from pictures.machines import AGENT, CHECK, CHECK_TRANSITIONS, CLUSTER, GROUP, MACHINES
from pictures.timelines import example, slots
from support.fleets.simulated import SimulatedFleet, fleet_of
from support.strategies import group
from zkdeployment.agent.daemon.agent import CYCLE_TRANSITIONS, CycleState
from zkdeployment.base.cluster import CLUSTER_TRANSITIONS, ClusterState
from zkdeployment.base.host import Facts
from zkdeployment.checks.rules.instance import CheckState
from zkdeployment.strategies.analysis import AnalysisMetric, parse_comparison
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.strategy import Pace, Strategy
from zkdeployment.strategies.views import GroupState, group_state

DRAWN = pictures()


def test_the_kept_pictures_are_current():
    kept = {file.name: file.read_text(encoding="utf-8") for file in DIRECTORY.glob("*.svg")}
    assert kept == DRAWN, "draw them with: PYTHONPATH=tests python -m pictures"


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_has_a_title_and_a_description_and_nothing_lies_outside(name):
    drawn = ET.fromstring(DRAWN[name])
    svg = "{http://www.w3.org/2000/svg}"
    assert drawn.findtext(f"{svg}title")
    assert drawn.findtext(f"{svg}desc")
    _, _, width, height = map(float, drawn.get("viewBox").split())
    for box in drawn.iter(f"{svg}rect"):
        x, y, wide, high = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert (x + wide <= width, y + high <= height) == (True, True)


@pytest.mark.parametrize(
    ("machine", "states"),
    [(GROUP, GroupState), (CLUSTER, ClusterState), (AGENT, CycleState), (CHECK, CheckState)],
    ids=str,
)
def test_each_state_is_drawn_and_reached(machine, states):
    assert set(states) == machine.places.keys()
    reached = {end for transition in machine.transitions for end in transition[:2]}
    assert reached == machine.places.keys()


@pytest.mark.parametrize(
    ("machine", "table"),
    [(CLUSTER, CLUSTER_TRANSITIONS), (AGENT, CYCLE_TRANSITIONS), (CHECK, CHECK_TRANSITIONS)],
    ids=str,
)
def test_each_change_of_state_in_a_table_of_the_code_is_drawn_with_its_event(machine, table):
    arrows = {(arrow.source, arrow.target): arrow.cause.split("; or ") for arrow in machine.transitions}
    changes = {(source, target) for (source, _), target in table.items() if source is not target}
    assert arrows.keys() == changes
    for (source, event), target in table.items():
        if source is not target:
            assert event.value in arrows[source, target]


def test_no_two_states_of_a_machine_have_the_same_place():
    for machine in MACHINES:
        assert len(set(machine.places.values())) == len(machine.places)


#: First a, which bakes; then b; then c.
STRATEGY = Strategy(
    "deployment-strategy",
    (
        replace(group("a", hosts="ax", percent_successful=100), pace=Pace(bake_time=120)),
        group("b", "a", hosts="by", percent_successful=100),
        group("c", "b", hosts="c", percent_successful=100),
    ),
)


#: The same strategy with a metric in the first group.
MEASURED = replace(
    STRATEGY,
    groups=(
        replace(
            STRATEGY.groups[0],
            pace=Pace(
                bake_time=120,
                progress_deadline=60,
                analysis=(AnalysisMetric("errors", "up", parse_comparison("<= 1")),),
            ),
        ),
        *STRATEGY.groups[1:],
    ),
)


def played(
    fleet: SimulatedFleet,
    events: dict[int, Callable[[], None]] | None = None,
    strategy: Strategy = STRATEGY,
) -> set[tuple[Enum, Enum]]:
    """Return the changes of all groups' states in a rollout; ``events`` happen so many seconds after its start."""
    state = fleet.start(strategy)
    seen = [[group_state(state, name)] for name in "abc"]
    for second in range(0, 1200, 10):
        (events or {}).get(second, lambda: None)()
        state = fleet.step(state)
        fleet.now += 10
        for name, states in zip("abc", seen, strict=True):
            states.append(group_state(state, name))
    assert state.ended is not None
    return {change for states in seen for change in pairwise(states) if change[0] is not change[1]}


def test_the_states_of_groups_change_as_drawn():
    erring, leaving, joined = (
        fleet_of("abc"),
        fleet_of("abcx"),
        fleet_of("abc", failing={(Phase.DEPLOY, "y")}),
    )
    promoted, rejected = fleet_of("abc", metrics={}), fleet_of("abc", metrics={})
    aborted = fleet_of("abc")
    plays = [
        played(promoted, {400: lambda: promoted.act(Directive.PROMOTE, "a")}, MEASURED),
        played(rejected, {400: lambda: rejected.act(Directive.FAIL, "a")}, MEASURED),
        played(aborted, {0: lambda: aborted.act(Directive.ABORT)}),
        played(fleet_of("abc")),
        played(fleet_of("abc", failing={(Phase.PREPARE, "a")})),
        played(fleet_of("abc", failing={(Phase.DEPLOY, "b")})),
        played(erring, {60: lambda: erring.erring.add("a")}),
        played(leaving, {10: lambda: leaving.deregister("x"), 400: lambda: leaving.register("x", Facts())}),
        played(joined, {600: lambda: joined.register("y", Facts())}),
    ]
    drawn = {(transition.source, transition.target) for transition in GROUP.transitions}
    assert set[tuple[Enum, Enum]]().union(*plays) == drawn


def test_the_picture_of_a_rollout_takes_the_groups_in_order():
    shown = [*slots()]
    assert list(dict.fromkeys(name for name, *_ in shown)) == [group.name for group in example().groups]
    assert [slot for *_, slot in shown] == sorted(slot for *_, slot in shown)

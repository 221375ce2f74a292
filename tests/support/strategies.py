"""Rollout strategies for tests, also arbitrary ones, and rollout states at chosen points of a rollout."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zkdeployment.base.host import Facts
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.strategies.documents import strategies
from zkdeployment.strategies.permission import PhaseReport
from zkdeployment.strategies.state import ActivePhase, Ending, RolloutState
from zkdeployment.strategies.state_machine import begin, next_task, record
from zkdeployment.strategies.strategy import Criteria, Group, Pace, ParallelLimit, Selector, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


_ALL_SUCCEED = {"critical": True, "success_criteria": {"percent_successful_nodes": 100}}

#: A literal copy of the example in the specification of strategies.
EXAMPLE_FILE = Path(__file__).with_name("strategy.yaml")

EXAMPLE_HOSTS = {
    "ntp01": Facts(rack="rack01"),
    "ctl1": Facts(rack="rack03", tags=frozenset({"control"})),
    "ctl2": Facts(rack="rack03", tags=frozenset({"control"})),
    "ctl3": Facts(rack="rack03", tags=frozenset({"control"})),
    "mon1": Facts(rack="rack02", tags=frozenset({"monitoring"})),
    "one1": Facts(rack="rack01", tags=frozenset({"compute"})),
    "one2": Facts(rack="rack01", tags=frozenset({"compute"})),
    "two1": Facts(rack="rack02", tags=frozenset({"compute"})),
}


def example() -> Strategy:
    """Return the example strategy."""
    documents = read_documents([SourceFile("strategy.yaml", EXAMPLE_FILE.read_bytes())])
    assert documents.problems == ()
    return strategies(documents)["deployment-strategy"]


def group(name: str, *parents: str, hosts: str = "", critical: bool = False, **criteria: int) -> Group:
    """Return a group of the hosts whose names are the letters of ``hosts`` (default: all hosts)."""
    selectors = (Selector(names=frozenset(hosts)),) if hosts else ()
    return Group(name, critical, depends_on=parents, selectors=selectors, criteria=Criteria(**criteria))


def strategy(*groups: Group) -> Strategy:
    """Return a strategy of these groups."""
    return Strategy("deployment-strategy", groups)


def plain_hosts(names: Iterable[str]) -> dict[str, Facts]:
    """Return facts of a host for each name, or for each letter of a string."""
    return dict.fromkeys(names, Facts())


def canary_first(
    selector: Mapping[str, Sequence[str]],
    rest: Mapping[str, object] = MappingProxyType({}),
    canary: Mapping[str, object] = MappingProxyType({}),
    *,
    on_failure: str = "stop",
) -> str:
    """Return a document of two groups, whose hosts must all succeed: the selected hosts, then all others.

    ``canary`` and ``rest`` are further or other values of the groups.
    """
    groups = (
        {"name": "canary", "depends_on": [], "selectors": [dict(selector)], **_ALL_SUCCEED, **canary},
        {"name": "rest", "depends_on": ["canary"], "selectors": [], **_ALL_SUCCEED, **rest},
    )
    return f"""\
schema: shipyard/DeploymentStrategy/v1
metadata: {{schema: metadata/Document/v1, name: deployment-strategy}}
data:
  on_failure: {on_failure}
  groups:
    - {json.dumps(groups[0])}
    - {json.dumps(groups[1])}
"""


#: The time at which these rollouts began.
BEGUN = 1_000.0


def begun_rollout(
    strategy: Strategy | None = None, hosts: Mapping[str, Facts] | None = None, **fields: Any
) -> RolloutState:
    """Return a rollout (default: of the example strategy) at its begin: no group has started."""
    rollout = begin(strategy or example(), EXAMPLE_HOSTS if hosts is None else hosts)
    return replace(RolloutState(7, 1, "r2", rollout, fields.pop("begun", BEGUN)), **fields)


def advanced_rollout(state: RolloutState, *failing: str, until: str | None = None) -> RolloutState:
    """Return the rollout after all tasks before the group ``until``, in which the ``failing`` hosts failed."""
    while (task := next_task(state.rollout)) is not None and task.group != until:
        good = [host for host in task.hosts if host not in failing]
        state = replace(state, rollout=record(state.rollout, task, good))
    return state


def active_rollout(
    state: RolloutState,
    *,
    granted: Iterable[str] = (),
    done: Iterable[str] = (),
    failed: Iterable[str] = (),
    baking: float | None = None,
) -> RolloutState:
    """Return the rollout with its next task as the active phase."""
    task = next_task(state.rollout)
    assert task is not None
    reports = {host: PhaseReport(BEGUN + 30) for host in done} | {
        host: PhaseReport(BEGUN + 40, "boom") for host in failed
    }
    granted_at = dict.fromkeys([*granted, *reports], BEGUN + 10)
    return replace(
        state,
        active_phase=ActivePhase(task, BEGUN + 5, BEGUN + 50, granted_at, reports, baking_since=baking),
    )


def ended_rollout(state: RolloutState, ending: Ending = Ending.COMPLETED) -> RolloutState:
    """Return the rollout after it ended."""
    return replace(state, ended=BEGUN + 100, ending=ending, active_phase=None)


#: The hosts.
NAMES = "abcdef"

_times = st.one_of(st.none(), st.sampled_from([30.0, 60.0]))

_widths = st.one_of(
    st.none(),
    st.builds(ParallelLimit, st.integers(1, 3)),
    st.builds(ParallelLimit, st.integers(1, 100), st.just(True)),
)

#: The pace of groups of which only a number of hosts run at the same time.
widths = st.builds(Pace, max_parallel=_widths)

paces = st.builds(
    Pace,
    max_parallel=_widths,
    bake_time=st.sampled_from([0.0, 45.0]),
    prepare_timeout=_times,
    deploy_timeout=_times,
    progress_deadline=_times,
    manual=st.booleans(),
)


@st.composite
def any_strategies(
    draw: Callable[..., Any], pace: st.SearchStrategy[Pace] | None = None, *, requires: bool = False
) -> Strategy:
    """Draw a valid rollout strategy of up to six groups, on request with a pace and required hosts."""
    groups: list[Group] = []
    for number in range(draw(st.integers(0, 6))):
        parents = draw(st.sets(st.sampled_from([group.name for group in groups]))) if groups else set()
        limits = st.one_of(st.none(), st.integers(0, 3))
        criteria = Criteria(draw(st.one_of(st.none(), st.integers(0, 100))), draw(limits), draw(limits))
        selectors = tuple(
            Selector(names=frozenset(names))
            for names in draw(st.lists(st.sets(st.sampled_from(NAMES)), max_size=2))
        )
        above = tuple(sorted(parents))
        speed = Pace() if pace is None else draw(pace)
        required = draw(st.sampled_from([None, None, 1, 3])) if requires else None
        groups.append(Group(f"g{number}", draw(st.booleans()), above, selectors, criteria, speed, required))
    return Strategy("any", tuple(draw(st.permutations(groups))))

"""Rollout strategies as Hypothesis makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zkdeployment.model.strategy import Criteria, Group, Pace, ParallelLimit, Selector, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

#: The hosts.
NAMES = "abcdef"

_times = st.one_of(st.none(), st.sampled_from([30.0, 60.0]))

_widths = st.one_of(
    st.none(),
    st.builds(ParallelLimit, st.integers(1, 3)),
    st.builds(ParallelLimit, st.integers(1, 100), st.just(True)),
)

#: Groups of which only so many hosts are at work at the same time.
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
def strategies(
    draw: Callable[..., Any], pace: st.SearchStrategy[Pace] | None = None, *, requires: bool = False
) -> Strategy:
    """Return any valid strategy of up to six groups; pace and required hosts are drawn where asked for."""
    groups: list[Group] = []
    for number in range(draw(st.integers(0, 6))):
        parents = draw(st.sets(st.sampled_from([one.name for one in groups]))) if groups else set()
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

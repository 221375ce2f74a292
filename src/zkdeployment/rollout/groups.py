"""Which hosts a group has, and whether what became of them meets its criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.strategy import Criteria, Facts, Group, Selector, Strategy


def members(group: Group, hosts: Mapping[str, Facts]) -> frozenset[str]:
    """Return the names of the hosts that any of the group's selectors selects; all, if it has none."""
    if not group.selectors:
        return frozenset(hosts)
    return frozenset(
        name
        for name, facts in hosts.items()
        if any(_selects(selector, name, facts) for selector in group.selectors)
    )


def is_selected(strategy: Strategy, name: str, facts: Facts) -> bool:
    """Whether a host is in any group of a strategy; a host in no group keeps what it has."""
    return any(members(group, {name: facts}) for group in strategy.groups)


def _selects(selector: Selector, name: str, facts: Facts) -> bool:
    """Whether a host meets every criterion that is given."""
    return (
        (not selector.names or name in selector.names or facts.name in selector.names)
        and (not selector.racks or facts.rack in selector.racks)
        and (not selector.tags or not selector.tags.isdisjoint(facts.tags))
        and (not selector.labels or not selector.labels.isdisjoint(facts.labels.items()))
    )


def misses(criteria: Criteria, *, successful: int, failed: int, total: int) -> Iterator[str]:
    """Say each criterion that so many hosts do not meet; of no hosts, every percentage is successful."""
    percent = criteria.percent_successful
    if percent is not None and successful * 100 < percent * total:
        share = f"{successful * 100 / total:.4g} %"
        yield f"{successful} of {total} hosts successful ({share}), expected at least {percent} %"
    if criteria.minimum_successful is not None and successful < criteria.minimum_successful:
        yield f"{successful} of {total} hosts successful, expected at least {criteria.minimum_successful}"
    if criteria.maximum_failed is not None and failed > criteria.maximum_failed:
        yield f"{failed} of {total} hosts failed, expected at most {criteria.maximum_failed}"

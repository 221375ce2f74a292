"""Which hosts a group has, and whether what became of them meets its criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.model.strategy import Criteria, Facts, Group, Selector, Strategy

#: How many values of a criterion a sentence names.
_NAMED = 3


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


def unmatched_selectors(strategy: Strategy, hosts: Mapping[str, Facts]) -> tuple[str, ...]:
    """Describe each selector of a strategy that selects none of these hosts, which are all that are known."""
    return tuple(
        f"selector {number} of group {group.name} matches no known host ({_describe(selector)});"
        " correct it, or what the hosts' configuration says"
        for group in strategy.groups
        for number, selector in enumerate(group.selectors, 1)
        if not any(_selects(selector, name, facts) for name, facts in hosts.items())
    )


def _describe(selector: Selector) -> str:
    """Return the criteria of a selector, each with its first values."""
    criteria = {
        "node_names": selector.names,
        "node_tags": selector.tags,
        "node_labels": [f"{key}: {value}" for key, value in selector.labels],
        "rack_names": selector.racks,
    }
    return "; ".join(f"{name} {_first(values)}" for name, values in criteria.items() if values) or "any host"


def _first(values: Collection[str]) -> str:
    rest = f" or {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return " or ".join(sorted(values)[:_NAMED]) + rest


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

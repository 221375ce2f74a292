"""Leaves the steps of stopped deployment intent groups out of a plan, with the software that only they need."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.plan import (
    ChangePackages,
    CheckOut,
    Deploy,
    RemoveCheckout,
    RemoveSoftware,
    Undeploy,
    group_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.inventory import Inventory
    from zkdeployment.base.plan import Plan, Step


def without_stopped_groups(
    made: Plan, stopped: Collection[str], wanted: Collection[Assignment], inventory: Inventory
) -> Plan:
    """Return a plan without the steps of the ``stopped`` groups; software that others need still changes.

    No software is removed, because a stopped group may still use it.
    """
    withheld: dict[str, set[str]] = defaultdict(set)
    for step in made.steps:
        group = group_of(step)
        if isinstance(step, Deploy | Undeploy) and group is not None and group in stopped:
            withheld[group].add(step.deployment.path)
    if not withheld:
        return made
    of_stopped = [one for one in wanted if one.group in stopped]
    kept = _software(one for one in wanted if one.group not in stopped)
    software = _software(of_stopped).union(_managed(of_stopped, inventory)) - kept
    return replace(
        made,
        steps=tuple(_kept_steps(made.steps, stopped, software, kept)),
        handover=None if made.handover in set().union(*withheld.values()) else made.handover,
        withheld={group: frozenset(services) for group, services in withheld.items()},
    )


def _managed(assignments: Iterable[Assignment], inventory: Inventory) -> set[str]:
    """Return the names of all packages of these assignments' applications that the host has."""
    applications = {one.application for one in assignments}
    return {name for name, application in inventory.managed.items() if application in applications}


def _software(assignments: Iterable[Assignment]) -> frozenset[str]:
    """Return the names of all packages, patches and checkouts of assignments."""
    return frozenset(name for one in assignments for name in (one.package, *one.patches))


def _kept_steps(
    steps: Iterable[Step], stopped: Collection[str], software: frozenset[str], kept: Collection[str]
) -> Iterator[Step]:
    """Yield the steps of a plan without those of ``stopped`` groups, and without changes of their ``software``."""
    for step in steps:
        left = _without(step, software) if isinstance(step, ChangePackages) else step
        if left is not None and not _is_left_out(step, stopped, software, kept):
            yield left


def _is_left_out(step: Step, stopped: Collection[str], software: frozenset[str], kept: Collection[str]) -> bool:
    match step:
        case CheckOut():
            return step.package in software
        case RemoveCheckout():
            return step.package not in kept
        case RemoveSoftware():
            return True
        case _:
            return group_of(step) in stopped


def _without(step: ChangePackages, software: frozenset[str]) -> ChangePackages | None:
    """Return a change of packages without those of ``software``; ``None`` if nothing is left."""

    def others(names: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in names.items() if name not in software}

    change = replace(
        step.change,
        want={name: version for name, version in step.change.want.items() if name not in software},
        remove=step.change.remove.difference(software),
        managed=step.change.managed.difference(software),
        reinstall=step.change.reinstall.difference(software),
        preserve=step.change.preserve.difference(software),
    )
    if not change:
        return None
    names = ", ".join(sorted(step.change.names & software))
    return replace(
        step,
        change=change,
        applications=others(step.applications),
        originals=others(step.originals),
        reason=f"{step.reason}; without {names} of a stopped group" if names else step.reason,
    )

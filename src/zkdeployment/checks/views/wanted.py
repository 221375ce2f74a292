"""Wanted check instances: their form for programs, and their changes by documents or by a revision."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import TreeError
from zkdeployment.base.records import Record
from zkdeployment.base.source_files import Severity
from zkdeployment.base.values import dataclass
from zkdeployment.checks.documents import (
    CHECK,
    ON_CALL,
    CheckConfiguration,
    MonitoringSystem,
    OnCall,
    check_problems,
)
from zkdeployment.checks.rules.spawning import (
    CheckBasis,
    CheckedHost,
    CheckScope,
    WantedInstance,
    changed_scope,
    checked_hosts,
    deciding_instance,
    tree_basis,
    wanted_instances,
)
from zkdeployment.checks.rules.workflow import same_details
from zkdeployment.fleet.views.forecast import PlanAddition, Prediction, PredictionBasis
from zkdeployment.tree.diff import apply_change
from zkdeployment.tree.values import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Value
    from zkdeployment.base.publication import Targets
    from zkdeployment.documents.collection import Documents
    from zkdeployment.publishing.rules.review import Review


@dataclass(frozen=True, slots=True)
class CheckError(Record):
    """The reason why instances of a configuration are not made or changed, with the service and their number."""

    path: str
    message: str
    instances: int


def check_errors(
    instances: Iterable[WantedInstance], unwritten: Mapping[str, str] = MappingProxyType({})
) -> tuple[CheckError, ...]:
    """Return the errors of wanted instances, by service.

    ``unwritten`` are the reasons for which instances could not be written, by the beginning of their identifiers.
    """
    counts: dict[tuple[str, str], int] = {}
    for wanted in instances:
        reasons = {reason for beginning, reason in unwritten.items() if wanted.id.startswith(beginning)}
        for fault in (*wanted.faults, *sorted(reasons)):
            key = (wanted.key.path, fault)
            counts[key] = counts.get(key, 0) + 1
    return tuple(CheckError(path, message, count) for (path, message), count in sorted(counts.items()))


def instances_of(basis: CheckBasis, name: str) -> tuple[WantedInstance, ...]:
    """Return the instances that a configuration wants."""
    return tuple(wanted_instances(basis, CheckScope(configurations=frozenset({name}))))


def preview_to_json(instances: Iterable[WantedInstance]) -> dict[str, Value]:
    """Return wanted instances as ``checks preview -o json`` prints them."""
    found = tuple(instances)
    return {
        "instances": [wanted_to_json(wanted) for wanted in found],
        "errors": [error.to_json() for error in check_errors(found)],
    }


def configurations_to_json(
    configurations: Iterable[CheckConfiguration], systems: Iterable[MonitoringSystem], duties: Iterable[OnCall]
) -> dict[str, Value]:
    """Return the configurations, the monitoring systems and the duties, as ``checks list -o json`` prints them."""
    return {
        "checks": [found.to_json() for found in sorted(configurations, key=lambda found: found.name)],
        "monitoring": [found.to_json() for found in sorted(systems, key=lambda found: found.name)],
        "on_call": duties_to_json(sorted(duties, key=lambda duty: duty.path)),
    }


def duties_to_json(duties: Iterable[OnCall]) -> list[Value]:
    """Return on-call duties as ``checks on-call -o json`` lists them."""
    return [{**duty.to_json(), "object": duty.path or "/"} for duty in duties]


def check_to_json(
    content: Mapping[str, Any],
    instances: Iterable[WantedInstance],
    states: Mapping[str, int],
    unwritten: Mapping[str, str],
) -> dict[str, Value]:
    """Return a configuration as ``checks show -o json`` prints it.

    ``content`` is its document, ``instances`` are the instances that it wants, and ``states`` has the number of
    existing instances in each state. ``unwritten``: see ``check_errors``.
    """
    found = tuple(instances)
    return {
        "name": content["metadata"]["name"],
        "document": dict(content),
        "wanted": len(found),
        "states": dict(states),
        "errors": [error.to_json() for error in check_errors(found, unwritten)],
    }


def wanted_to_json(wanted: WantedInstance) -> dict[str, Value]:
    """Return a wanted instance with its details, or with the reasons why it has no details."""
    key, identity = wanted.key, wanted.host.identity
    return {
        "id": wanted.id,
        "check": key.check,
        "path": key.path,
        "number": key.number,
        "host": {"id": identity.id, "name": identity.name, "address": wanted.host.address},
        "attributes": dict(key.attributes),
        "monitoring": wanted.system,
        "details": None if wanted.faults else dict(wanted.details()),
        "errors": list(wanted.faults),
    }


@dataclass(frozen=True, slots=True)
class PreviewBasis:
    """The basis of a preview: a tree, its targets without those that are withheld, and hosts.

    ``systems`` are the names of existing monitoring systems, ``checks`` the names of configurations, and
    ``duties`` the on-call duties.
    """

    tree: Tree = field(default_factory=lambda: Tree({}))
    targets: Targets = field(default_factory=dict)
    systems: frozenset[str] = frozenset()
    hosts: Mapping[str, CheckedHost] = field(default_factory=dict)
    duties: tuple[OnCall, ...] = ()
    checks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CheckPreview:
    """The instances that new configurations would make, and the warnings about their documents."""

    instances: tuple[WantedInstance, ...] = ()
    warnings: tuple[str, ...] = ()


def preview_checks(documents: Documents, basis: PreviewBasis) -> CheckPreview:
    """Return the instances of new configurations; raises ``TreeError`` with all errors of their references."""
    problems = list(check_problems(documents, basis.tree, basis.systems, basis.checks))
    errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise TreeError("\n".join(errors))
    duties = (*basis.duties, *documents.of(ON_CALL).values())
    configurations = {found.name: found for found in documents.of(CHECK).values()}
    found = tree_basis(basis.tree.properties, basis.targets, configurations, basis.hosts, duties)
    return CheckPreview(tuple(wanted_instances(found)), tuple(map(str, problems)))


#: The most instances of each kind that the JSON form lists.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class CheckDifference:
    """The changes of check instances, by host, path and number.

    A changed instance is undeployed and deployed again; both its values are listed, the present one first.
    ``errors`` are the errors of instances that stay unchanged, or are not made.
    """

    added: tuple[WantedInstance, ...] = ()
    changed: tuple[tuple[WantedInstance, WantedInstance], ...] = ()
    removed: tuple[WantedInstance, ...] = ()
    errors: tuple[CheckError, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def describe(self) -> Iterator[str]:
        """Yield a line for each check configuration, and for each error."""
        kinds = {
            "added": Counter(found.key.check for found in self.added),
            "changed": Counter(found.key.check for found, _ in self.changed),
            "removed": Counter(found.key.check for found in self.removed),
        }
        for name in sorted({*kinds["added"], *kinds["changed"], *kinds["removed"]}):
            counts = [f"{counts[name]} {kind}" for kind, counts in kinds.items() if counts[name]]
            yield f"check {name}: instances: {', '.join(counts)}"
        for error in self.errors:
            yield f"check instances of {error.path} stay unchanged ({error.instances}): {error.message}"

    def to_json(self) -> dict[str, Value]:
        """Return the difference as ``checks diff -o json`` prints it."""
        return {
            "counts": {"added": len(self.added), "changed": len(self.changed), "removed": len(self.removed)},
            "added": [wanted_to_json(found) for found in self.added[:_MOST]],
            "changed": [
                {"before": wanted_to_json(before), "after": wanted_to_json(after)}
                for before, after in self.changed[:_MOST]
            ],
            "removed": [wanted_to_json(found) for found in self.removed[:_MOST]],
            "errors": [error.to_json() for error in self.errors],
        }


def check_difference(before: CheckBasis, after: CheckBasis) -> CheckDifference:
    """Return the effect of a change of the basis on check instances."""
    scope = changed_scope(before, after)
    if not scope:
        return CheckDifference()
    former = {found.id: found for found in wanted_instances(before, scope) if not found.faults}
    wanted = {found.id: found for found in wanted_instances(after, scope)}
    changed = tuple(
        (old, new)
        for instance, new in wanted.items()
        if not new.faults and (old := former.get(instance)) is not None and _differs(old, new)
    )
    return CheckDifference(
        added=tuple(found for instance, found in wanted.items() if not found.faults and instance not in former),
        changed=changed,
        removed=tuple(found for found in former.values() if deciding_instance(wanted, found.key) is None),
        errors=check_errors(wanted.values()),
    )


def planned_difference(reviewed: Review, basis: PredictionBasis, predicted: Prediction) -> CheckDifference:
    """Return the effect of the publication of a reviewed tree on check instances."""
    hosts = checked_hosts(basis.hosts, basis.known)
    published = {found.name: found for found in basis.documents.of(CHECK).values()}
    duties = basis.documents.of(ON_CALL).values()
    before = tree_basis(basis.live.tree.properties, predicted.targets_before, published, hosts, duties)
    if predicted.keeps_documents:
        tree = apply_change(basis.live.tree, predicted.forecast.change)
        return check_difference(before, tree_basis(tree.properties, predicted.targets, published, hosts, duties))
    planned = {found.name: found for found in reviewed.documents.of(CHECK).values()}
    duties = reviewed.documents.of(ON_CALL).values()
    after = tree_basis(reviewed.linted.tree.properties, predicted.targets, planned, hosts, duties)
    return check_difference(before, after)


def plan_addition(reviewed: Review, basis: PredictionBasis, predicted: Prediction) -> PlanAddition:
    """Return the effect of a publication on check instances, as an addition to its plan."""
    found = planned_difference(reviewed, basis, predicted)
    return PlanAddition("checks", "Checks", found.to_json(), tuple(found.describe()), bool(found))


def shown_command(wanted: WantedInstance) -> Sequence[str]:
    """Return the command of an instance without faults, with its arguments."""
    check = wanted.check
    return (check.configuration.command, *check.arguments_for(wanted.host, wanted.key.number))


def _differs(old: WantedInstance, new: WantedInstance) -> bool:
    return old.system != new.system or not same_details(old.details(), new.details())

"""The difference between the check instances of two publications: what a revision adds, changes and removes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.checks.basis import changed_scope, checked_hosts, tree_basis
from zkdeployment.checks.comparison import same_details
from zkdeployment.checks.spawning import deciding_instance, wanted_instances
from zkdeployment.checks.views import check_errors, wanted_to_json
from zkdeployment.documents.checks.kinds import CHECK
from zkdeployment.documents.checks.on_call import ON_CALL
from zkdeployment.tree.diff import apply_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.checks.basis import CheckBasis
    from zkdeployment.checks.spawning import WantedInstance
    from zkdeployment.checks.views import CheckError
    from zkdeployment.model.tree import Value
    from zkdeployment.planning.prediction import Prediction, PredictionBasis
    from zkdeployment.planning.review import Review

#: The instances of a kind that the JSON form lists.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class CheckDifference:
    """The changes of check instances, by host, path and number.

    A changed instance is undeployed and deployed again; both its values are listed, the present one first.
    ``errors`` are those of instances that stay unchanged, or are not made.
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
    """Return what a change of the basis does to check instances."""
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


def planned_difference(
    reviewed: Review, basis: PredictionBasis, predicted: Prediction, *, keeps_documents: bool = False
) -> CheckDifference:
    """Return what the publication of a reviewed tree does to check instances.

    ``keeps_documents``: the files are a part of the tree and do not show the documents.
    """
    hosts = checked_hosts(basis.hosts, basis.known)
    published = {found.name: found for found in basis.documents.of(CHECK).values()}
    duties = basis.documents.of(ON_CALL).values()
    before = tree_basis(basis.live.tree.properties, predicted.targets_before, published, hosts, duties)
    if keeps_documents:
        tree = apply_change(basis.live.tree, predicted.forecast.change)
        return check_difference(before, tree_basis(tree.properties, predicted.targets, published, hosts, duties))
    planned = {found.name: found for found in reviewed.documents.of(CHECK).values()}
    duties = reviewed.documents.of(ON_CALL).values()
    after = tree_basis(reviewed.linted.tree.properties, predicted.targets, planned, hosts, duties)
    return check_difference(before, after)


def shown_command(wanted: WantedInstance) -> Sequence[str]:
    """Return the command of an instance without faults, with its arguments."""
    check = wanted.check
    return (check.configuration.command, *check.arguments_for(wanted.host, wanted.key.number))


def _differs(old: WantedInstance, new: WantedInstance) -> bool:
    return old.system != new.system or not same_details(old.details(), new.details())

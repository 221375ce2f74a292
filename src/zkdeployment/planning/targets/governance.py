"""Governance: which intent governs which service for which target, and what is wrong with that."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.kinds import CLUSTER, GROUP
from zkdeployment.documents.intents.values import FleetStop, subject_text
from zkdeployment.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.intents.values import Intent, IntentSubject
    from zkdeployment.documents.published import PublishedDocuments
    from zkdeployment.model.deployment import Assignment
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.tree import Tree
    from zkdeployment.planning.targets.withheld import ServiceTarget

#: The key of the paths, by the kind of document.
INTENT_PATHS = {GROUP.name: "apps", CLUSTER.name: "network-intents"}

#: The kinds of documents that are intents.
INTENT_KINDS = frozenset(INTENT_PATHS)


@dataclass(frozen=True, slots=True)
class GovernedService:
    """A service of an app of an intent, as one target is to run it."""

    app: str
    target: str
    assignment: Assignment

    @property
    def key(self) -> ServiceTarget:
        """The path of the service node and the name of the target."""
        return self.assignment.path, self.target


@dataclass(frozen=True, slots=True)
class GovernanceFault:
    """A fault of an intent: the subject, its app and the position of the path in the app's list."""

    subject: IntentSubject
    app: str
    position: int
    message: str


@dataclass(frozen=True, slots=True)
class Governance:
    """The intents of a revision, and the services that left the governance of earlier ones."""

    intents: tuple[Intent, ...] = ()
    left: tuple[LeftService, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.intents or self.left)

    def withheld(self, whole: Targets) -> frozenset[ServiceTarget]:
        """Return the services of the ``whole`` tree's targets that are not deployed."""
        withheld = withheld_services(self.intents, governed_services(self.intents, whole)) if self.intents else ()
        return frozenset((*withheld, *self._left_withheld(whole)))

    def with_groups(self, targets: Targets) -> Targets:
        """Return the targets with the groups that failures stop instead of the fleet."""
        groups = [intent for intent in self.intents if intent.fleet_stop is FleetStop.GROUP]
        if not groups:
            return targets
        owners = _Owners(groups)
        grouped: dict[int, Assignment] = {}  # targets of one service share its assignment

        def group(assignment: Assignment, target: str) -> Assignment:
            found = None if target.startswith("/") else owners.of(assignment.path, target)
            if not found:
                return assignment
            subject = subject_text(found[0].intent.subject)
            return grouped.setdefault(id(assignment), replace(assignment, group=subject))

        return {name: tuple(group(one, name) for one in assignments) for name, assignments in targets.items()}

    def _left_withheld(self, whole: Targets) -> Iterator[ServiceTarget]:
        """Yield the services that stay withheld after they left governance, and that no intent has now."""
        left: dict[str, list[LeftService]] = defaultdict(list)
        for one in self.left:
            if one.is_withheld:
                left[one.path].append(one)
        owners = _Owners(self.intents)
        for target, assignments in whole.items() if left else ():
            for assignment in assignments:
                path = assignment.path
                if any(one.covers(path, target) for one in left.get(path, ())) and not owners.of(path, target):
                    yield path, target


NO_GOVERNANCE = Governance()


def read_intents(documents: Documents) -> tuple[Intent, ...]:
    """Return the groups and the clusters of a revision."""
    return (*documents.of(GROUP).values(), *documents.of(CLUSTER).values())


def published_governance(documents: PublishedDocuments, left: Iterable[LeftService]) -> Governance:
    """Return the groups and the clusters that were published, with the services that left governance."""
    return Governance((*documents.of(GROUP).values(), *documents.of(CLUSTER).values()), tuple(left))


def governed_services(
    intents: Iterable[Intent], targets: Targets
) -> dict[IntentSubject, tuple[GovernedService, ...]]:
    """Return the services that each intent governs, by app, path and target.

    ``targets`` are those of the whole tree, with nothing withheld. A service that is governed twice belongs to the
    first intent; ``governance_faults`` reports it.
    """
    intents = tuple(intents)
    owners = _Owners(intents)
    governed: dict[IntentSubject, list[GovernedService]] = {intent.subject: [] for intent in intents}
    for target, assignments in targets.items():
        for assignment in assignments if not target.startswith("/") else ():
            for owner in owners.of(assignment.path, target):
                governed[owner.intent.subject].append(GovernedService(owner.app, target, assignment))
                break
    return {subject: tuple(sorted(services, key=_order)) for subject, services in governed.items()}


def governing_intents(intents: Iterable[Intent], services: Iterable[ServiceTarget]) -> dict[ServiceTarget, Intent]:
    """Return the intent that governs each of some services for a target; services without one are left out."""
    owners = _Owners(intents)
    return {(path, target): found[0].intent for path, target in services if (found := owners.of(path, target))}


def is_governed(intents: Iterable[Intent], path: str, target: str | None) -> bool:
    """Whether an intent governs a service for a target; ``None``: for all targets."""
    return bool(_Owners(intents).of(path, target))


def withheld_services(
    intents: Iterable[Intent], governed: Mapping[IntentSubject, Iterable[GovernedService]]
) -> frozenset[ServiceTarget]:
    """Return the services that are not deployed, because their intents are neither Instantiated nor Applied."""
    inactive = (intent.subject for intent in intents if not intent.state.is_active)
    return frozenset(service.key for subject in inactive for service in governed.get(subject, ()))


def governance_faults(intents: Iterable[Intent], tree: Tree, targets: Targets) -> Iterator[GovernanceFault]:
    """Yield a fault for each path that is no node, and for each intent that governs a service of another one."""
    intents = tuple(intents)
    for intent in intents:
        for app, paths in intent.apps.items():
            for position, path in enumerate(paths):
                if path not in tree:
                    message = f"there is no node {path}; expected the path of a node of the tree"
                    yield GovernanceFault(intent.subject, app, position, message)
    owners = _Owners(intents)
    reported = set()
    for target, assignments in targets.items() if intents else ():  # most trees have none, and many targets
        for assignment in assignments if not target.startswith("/") else ():
            found = owners.of(assignment.path, target)
            for other in found[1:]:
                fault = (other.intent.subject, other.app, other.position)
                if fault not in reported:
                    reported.add(fault)
                    message = (
                        f"{assignment.path} for {target} is governed by {subject_text(found[0].intent.subject)},"
                        " too; expected one intent for each service and target"
                    )
                    yield GovernanceFault(*fault, message)


def intent_problems(documents: Documents, tree: Tree, targets: Targets) -> Iterator[Problem]:
    """Yield the problems of intents with the tree: paths that are no nodes, services under two intents.

    ``targets`` are those of the whole tree, with nothing withheld.
    """
    entries = {entry.subject: entry for (kind, _), entry in documents.entries.items() if kind in INTENT_PATHS}
    for fault in governance_faults(read_intents(documents), tree, targets):
        entry = entries[fault.subject]
        yield entry.problem(("data", INTENT_PATHS[entry.kind.name], fault.app, fault.position), fault.message)


def ungoverned_problems(paths: Collection[str], intents: Iterable[Intent], targets: Targets) -> Iterator[Problem]:
    """Yield an error for each service at or below one of the ``paths`` that no intent governs for some target.

    ``targets`` are those of the whole tree, with nothing withheld.
    """
    owners = _Owners(intents)
    reported: set[str] = set()
    for target, assignments in sorted(targets.items()) if paths else ():
        for assignment in assignments if not target.startswith("/") else ():
            path = assignment.path
            above = next((each for each in paths if f"{path}/".startswith(f"{each.rstrip('/')}/")), None)
            if above is not None and path not in reported and not owners.of(path, target):
                reported.add(path)
                yield Problem(
                    f"{path} has no intent for {target}: expected one for every service at and below {above}"
                    " (governed-paths); name the path in an app of a deployment intent group, or in the network"
                    " intents of a cluster",
                    path=path,
                )


@dataclass(frozen=True, slots=True)
class _Owner:
    """The place where an intent names a path."""

    intent: Intent
    app: str
    position: int


class _Owners:
    """The intents by the paths that they name."""

    def __init__(self, intents: Iterable[Intent]) -> None:
        self._by_path: dict[str, list[_Owner]] = {}
        for intent in intents:
            for app, paths in intent.apps.items():
                for position, path in enumerate(paths):
                    self._by_path.setdefault(path, []).append(_Owner(intent, app, position))

    def of(self, path: str, target: str | None) -> list[_Owner]:
        """Return what governs a service for a target, each intent once, the widest path first.

        ``None`` stands for all targets.
        """
        found: dict[IntentSubject, _Owner] = {}
        for above in _paths_to(path):
            for owner in self._by_path.get(above, ()):
                if owner.intent.target in {None, target}:
                    found.setdefault(owner.intent.subject, owner)
        return list(found.values())


def _paths_to(path: str) -> Iterator[str]:
    """Yield the paths of the nodes above a node, the highest first, and its own."""
    end = path.find("/", 1)
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)
    yield path


def _order(service: GovernedService) -> tuple[str, str, str]:
    return service.app, service.assignment.path, service.target

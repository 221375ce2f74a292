"""Governance: the intent of each service, faults of governance, and paths that govern no service.

Governance begins and ends only by an act: left services stay as published, adopted ones run on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from zkdeployment.base.errors import LinkError
from zkdeployment.base.publication import LeftService, Targets
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.intents.documents import (
    CLUSTER,
    GROUP,
    RELEASE,
    ClusterIntents,
    FleetStop,
    Intent,
    IntentState,
    IntentSubject,
    ServiceRelease,
    subject_text,
)
from zkdeployment.intents.rules.content import DEPLOY, listed_services, service_content
from zkdeployment.publishing.governance import Governance
from zkdeployment.publishing.section import FormerGovernance, GovernanceChange
from zkdeployment.publishing.targets.groups import GoverningGroups, paths_to
from zkdeployment.tree.links import resolve
from zkdeployment.tree.values import SYMBOLIC_LINK, Tree, parent_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Properties
    from zkdeployment.documents.collection import DocumentEntry, Documents, PublishedDocuments
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.targets.compilation import Compilation
    from zkdeployment.publishing.targets.compiler import ServiceTarget


#: The key of the paths, by the kind of document.
INTENT_PATHS = {GROUP.name: "apps", CLUSTER.name: "network-intents"}

#: The kinds of documents that are intents.
INTENT_KINDS = frozenset(INTENT_PATHS)


@dataclass(frozen=True, slots=True)
class GovernedService:
    """A service of an app of an intent, for one target."""

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
class IntentGovernance(Governance):
    """The intents of a revision, and the services that left the governance of earlier ones."""

    intents: tuple[Intent, ...] = ()
    left: tuple[LeftService, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.intents or self.left)

    @property
    def size(self) -> int:
        """The number of intents."""
        return len(self.intents)

    def withheld(self, whole: Targets) -> frozenset[ServiceTarget]:
        """Return the services of the ``whole`` tree's targets that are withheld."""
        withheld = withheld_services(self.intents, governed_services(self.intents, whole)) if self.intents else ()
        return frozenset((*withheld, *self._left_withheld(whole)))

    def with_groups(self, targets: Targets) -> Targets:
        """Return the targets, each assignment with the group that a failure stops instead of the fleet."""
        groups = stopping_groups(self.intents)
        if not groups:
            return targets
        grouped: dict[int, Assignment] = {}  # targets of one service share its assignment

        def group(assignment: Assignment, target: str) -> Assignment:
            subject = None if target.startswith("/") else groups.of(assignment.path)
            if subject is None:
                return assignment
            return grouped.setdefault(id(assignment), replace(assignment, group=subject))

        return {name: tuple(group(one, name) for one in assignments) for name, assignments in targets.items()}

    def ungoverned_problems(self, paths: Collection[str], whole: Targets) -> Iterator[Problem]:
        """Yield an error for each service at or below one of the ``paths`` that no intent governs for a target."""
        owners = _Owners(self.intents)
        reported: set[str] = set()
        for target, assignments in sorted(whole.items()) if paths else ():
            for assignment in assignments if not target.startswith("/") else ():
                path = assignment.path
                above = next((each for each in paths if f"{path}/".startswith(f"{each.rstrip('/')}/")), None)
                if above is not None and path not in reported and not owners.of(path, target):
                    reported.add(path)
                    yield Problem(
                        f"{path} has no intent for {target}: expected one for every service at and below {above}"
                        " (governed-paths); name the path in an app of a deployment intent group, or in the"
                        " network intents of a cluster",
                        path=path,
                    )

    def _left_withheld(self, whole: Targets) -> Iterator[ServiceTarget]:
        """Yield the services that stay withheld because they left governance and no intent governs them now."""
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


def stopping_groups(intents: Iterable[Intent]) -> GoverningGroups:
    """Return the groups that a failure of their services stops, instead of the fleet."""
    groups = (intent for intent in intents if intent.fleet_stop is FleetStop.GROUP)
    return GoverningGroups(
        {subject_text(group.subject): sorted({*chain.from_iterable(group.apps.values())}) for group in groups}
    )


def intents_of(governance: Governance) -> tuple[Intent, ...]:
    """Return the intents of a governance, which is perhaps empty."""
    return governance.intents if isinstance(governance, IntentGovernance) else ()


def read_intents(documents: Documents | PublishedDocuments) -> tuple[Intent, ...]:
    """Return the groups and the clusters of a revision."""
    return (*documents.of(GROUP).values(), *documents.of(CLUSTER).values())


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
    """Return the intent that governs each service for its target, without ungoverned services."""
    owners = _Owners(intents)
    return {(path, target): found[0].intent for path, target in services if (found := owners.of(path, target))}


def is_governed(intents: Iterable[Intent], path: str, target: str | None) -> bool:
    """Whether an intent governs a service for a target; ``None``: for all targets."""
    return bool(_Owners(intents).of(path, target))


def withheld_services(
    intents: Iterable[Intent], governed: Mapping[IntentSubject, Iterable[GovernedService]]
) -> frozenset[ServiceTarget]:
    """Return the withheld services, whose intents are neither Instantiated nor Applied."""
    inactive = (intent.subject for intent in intents if not intent.state.is_active)
    return frozenset(service.key for subject in inactive for service in governed.get(subject, ()))


def governance_faults(intents: Iterable[Intent], tree: Tree, targets: Targets) -> Iterator[GovernanceFault]:
    """Yield a fault for each path without a node, and for each service that two intents govern."""
    intents = tuple(intents)
    for intent in intents:
        for app, paths in intent.apps.items():
            for position, path in enumerate(paths):
                if path not in tree:
                    message = f"there is no node {path}; expected the path of a node of the tree"
                    yield GovernanceFault(intent.subject, app, position, message)
    owners = _Owners(intents)
    reported = set()
    for target, assignments in targets.items() if intents else ():  # most trees have no intents, but many targets
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


def intent_problems(documents: Documents, tree: Tree | None, targets: Targets) -> Iterator[Problem]:
    """Yield the problems of intents with the tree: paths without nodes, services under two intents.

    ``targets`` are those of the whole tree, with nothing withheld. Without files of a tree there are no problems.
    """
    if tree is None:
        return
    entries = {entry.subject: entry for (kind, _), entry in documents.entries.items() if kind in INTENT_PATHS}
    for fault in governance_faults(read_intents(documents), tree, targets):
        entry = entries[fault.subject]
        yield entry.problem(("data", INTENT_PATHS[entry.kind.name], fault.app, fault.position), fault.message)


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
        """Return the intents that govern a service for a target, each once, the widest path first.

        ``None`` stands for all targets.
        """
        found: dict[IntentSubject, _Owner] = {}
        for above in paths_to(path):
            for owner in self._by_path.get(above, ()):
                if owner.intent.target in {None, target}:
                    found.setdefault(owner.intent.subject, owner)
        return list(found.values())


def _order(service: GovernedService) -> tuple[str, str, str]:
    return service.app, service.assignment.path, service.target


#: The most targets that a message names.
_NAMED = 5


def coverage_problems(documents: Documents, tree: Tree | None, targets: Targets) -> Iterator[Problem]:
    """Yield a warning for each path of an intent that governs no service, and for services behind links.

    ``targets`` are those of the whole tree, with nothing withheld. Paths without nodes are reported by
    ``intent_problems``.
    """
    entries = [entry for (kind, _), entry in documents.entries.items() if kind in INTENT_PATHS]
    if not entries or tree is None:
        return
    intents = tuple(entry.value for entry in entries)
    coverage = _Coverage(intents, tree, targets)
    for entry in entries:
        yield from _entry_problems(entry, coverage)


def idle_paths(intent: Intent, nodes: Mapping[str, Properties]) -> tuple[str, ...]:
    """Return the paths of an intent that govern no service among these nodes, sorted."""
    link = f"{DEPLOY}{SYMBOLIC_LINK}"
    services = {
        path
        for path, targets in listed_services(nodes).items()
        if intent.target is None or intent.target in targets or link in nodes.get(path, ())
    }
    covered = {above for service in services for above in _upwards(service)}
    paths = {path for paths in intent.apps.values() for path in paths}
    return tuple(sorted(paths - covered))


class _Coverage:
    """The services of a tree, by their paths and by the nodes above them."""

    def __init__(self, intents: tuple[Intent, ...], tree: Tree, targets: Targets) -> None:
        self.intents = intents
        self.tree = tree
        self.services: dict[str, set[str]] = {
            path: set(names) for path, names in listed_services(tree.nodes).items()
        }
        for target, assignments in targets.items():
            for assignment in assignments if not target.startswith("/") else ():
                self.services.setdefault(assignment.path, set()).add(target)
        self._below: dict[str, list[str]] = {}
        for service in self.services:
            for above in _upwards(service):
                self._below.setdefault(above, []).append(service)

    def below(self, path: str) -> list[str]:
        """Return the services at or below a node."""
        return self._below.get(path, [])

    def service_above(self, path: str) -> str | None:
        """Return the nearest service above a node."""
        return next((above for above in _upwards(parent_path(path)) if above in self.services), None)

    def linked(self, top: str, target: str | None) -> Iterator[tuple[str, str]]:
        """Yield each link below a node to a service that no intent governs, with the service.

        Links of service nodes are omitted, because they lead to data that the services read.
        """
        waiting = [top]
        while waiting:
            path = waiting.pop()
            if path in self.services:
                continue
            waiting += (f"{path}/{name}" for name in self.tree.children(path))
            for key in self.tree.properties(path) or ():
                if key.endswith(SYMBOLIC_LINK):
                    link = f"{path}/{key.removesuffix(SYMBOLIC_LINK)}"
                    yield from ((link, service) for service in self._behind(link, target))

    def _behind(self, link: str, target: str | None) -> Iterator[str]:
        try:
            services = self.below(resolve(self.tree.properties, link))
        except LinkError:
            return
        for service in services:
            is_concerned = target is None or target in self.services[service]
            if is_concerned and not is_governed(self.intents, service, target):
                yield service


def _entry_problems(entry: DocumentEntry, coverage: _Coverage) -> Iterator[Problem]:
    intent: Intent = entry.value
    for app, paths in intent.apps.items():
        for position, path in enumerate(paths):
            if path in coverage.tree:
                way = ("data", INTENT_PATHS[entry.kind.name], app, position)
                for message in _path_messages(intent, path, coverage):
                    yield replace(entry.problem(way, message), severity=Severity.WARNING)


def _path_messages(intent: Intent, path: str, coverage: _Coverage) -> Iterator[str]:
    linked = sorted(set(coverage.linked(path, intent.target)))
    for link, service in linked:
        yield (
            f"the service {service} is reached only through the link {link}: it is not governed; name {service}"
            " among the paths"
        )
    services = coverage.below(path)
    if isinstance(intent, ClusterIntents) and services:
        known = sorted({target for service in services for target in coverage.services[service]})
        if intent.target not in known:
            expected = f"expected one of: {listing(known, _NAMED)}" if known else "nothing is deployed there"
            yield f"no service at or below {path} has the target {intent.target}: nothing is governed; {expected}"
    elif not services and not linked:
        above = coverage.service_above(path)
        expected = (
            "a path at or above a service" if above is None else f"the path of the service above it, {above}"
        )
        yield f"there is no service at or below {path}: nothing is governed; expected {expected}"


def _upwards(path: str) -> Iterable[str]:
    """Yield a path and the paths of the nodes above it."""
    while path:
        yield path
        path = parent_path(path)


@dataclass(frozen=True, slots=True)
class IntentGovernanceChange(GovernanceChange):
    """The governance of intents after a change.

    ``left`` are the services that leave governance with the change. ``releases`` are the documents that release
    services which left earlier, ``outdated`` the documents that release another content of such services,
    ``pending`` the documents that lack approvals.
    """

    left: tuple[LeftService, ...] = ()
    releases: tuple[ServiceRelease, ...] = ()
    outdated: tuple[ServiceRelease, ...] = ()
    pending: tuple[ServiceRelease, ...] = ()

    def problems(
        self, before: Governance, had: Targets, compilation: Compilation, reviewed: Review
    ) -> Iterator[Problem]:
        """Yield the problems of services that leave governance, stay left, or come under an intent."""
        yield from left_problems(self, reviewed.documents, reviewed.linted.tree)
        yield from adoption_problems(before, had, compilation, self, reviewed.documents)


def change_governance(
    former: FormerGovernance, documents: Documents, text: Tree, tree: Tree, revision: Revision
) -> IntentGovernanceChange:
    """Return the governance after a change to ``tree`` that is published with ``documents`` as ``revision``.

    ``text`` is the tree of all files, from which contents are read; ``tree`` also has nodes that are in no file. A
    service that left governance stays left until a release of its content, or an intent, covers it, or until the
    service is gone from the tree.
    """
    intents = read_intents(documents)
    found = (one for one in _leaving(former, intents, revision) if one.path in tree)
    leaving = tuple(sorted(found, key=_left_order))
    former_left = (one for one in former.governance.left if one.path in tree)
    staying = [one for one in former_left if not is_governed(intents, one.path, one.target)]
    releases: list[ServiceRelease] = []
    outdated: list[ServiceRelease] = []
    pending: list[ServiceRelease] = []
    kept: list[LeftService] = []
    orders = list(documents.of(RELEASE).values()) if staying else []
    for one in staying:
        named = [order for order in orders if order.names(one)]
        content = service_content(one.path, one.target, text).digest if named else ""
        if valid := [order for order in named if order.releases(one, content)]:
            releases += valid
        else:
            kept.append(one)
            outdated += [order for order in named if order.approval.content != content]
            pending += [order for order in named if order.approval.content == content]
    after = IntentGovernance(intents, tuple(sorted((*kept, *leaving), key=_left_order)))
    return IntentGovernanceChange(after, leaving, tuple(releases), tuple(outdated), tuple(pending))


def left_problems(change: IntentGovernanceChange, documents: Documents, text: Tree) -> Iterator[Problem]:
    """Yield the errors of deployed left services that change, and warnings of services that leave governance.

    A release of another content, or one that lacks approvals, is a warning at its document.
    """
    for one in change.after.left:
        if one.content is not None and service_content(one.path, one.target, text).digest != one.content:
            message = f"{one} may not change: {one.sentence}; release it first, or put back its content"
            if one in change.left:
                message = (
                    f"{one} may not change while it leaves the governance of {subject_text(one.former)}: expected"
                    " the content that is deployed; put back its content, and release it after this change is"
                    " published"
                )
            yield Problem(message, path=one.path)
    for one in change.left:
        state = "is not deployed" if one.is_withheld else "stays deployed"
        message = (
            f"{one} leaves the governance of {subject_text(one.former)}, {state}, and stays so until"
            f" 'zkdeployment intent release {one.path}'"
        )
        yield Problem(message, path=one.path, severity=Severity.WARNING)
    entries = {entry.value: entry for (kind, _), entry in documents.entries.items() if kind == RELEASE.name}
    for release in change.outdated:
        message = f"{release.path} has changed since it was released; release it again"
        at = entries[release].problem(("data", "approval", "content"), message)
        yield replace(at, severity=Severity.WARNING)
    for release in change.pending:
        message = (
            f"{release.path} is not released yet: its release lacks approvals; another approver signs it with"
            f" 'zkdeployment intent release {release.path}'"
        )
        yield replace(entries[release].problem(("data", "pending"), message), severity=Severity.WARNING)


def adoption_problems(
    former: Governance,
    had: Targets,
    compilation: Compilation,
    change: GovernanceChange,
    documents: Documents,
    *,
    is_published_known: bool = True,
) -> Iterator[Problem]:
    """Yield an error for each intent that would undeploy services which it did not govern before.

    ``had`` are the targets that hosts have under the ``former`` governance. If only files are known, and not the
    publication, ``had`` also has services that an intent left undeployed. In this case an intent in the state
    Terminated yields only a warning, because the state means that nothing is deployed.
    """
    deployed = {
        (assignment.path, target)
        for target, assignments in (had if compilation.withheld else {}).items()
        for assignment in assignments
    }
    ended = compilation.withheld & deployed
    before = governing_intents(intents_of(former), ended)
    gained: dict[IntentSubject, list[ServiceTarget]] = {}
    intents = intents_of(change.after)
    owners = governing_intents(intents, ended)
    for service, intent in sorted(owners.items(), key=lambda item: item[0]):
        if service not in before or before[service].subject != intent.subject:
            gained.setdefault(intent.subject, []).append(service)
    states = {intent.subject: intent.state for intent in intents}
    for subject, services in gained.items():
        is_doubtful = not is_published_known and states[subject] is IntentState.TERMINATED
        severity = Severity.WARNING if is_doubtful else Severity.ERROR
        adopt = f"take them over unchanged with 'zkdeployment intent adopt {subject_text(subject)}"
        advice = f"{adopt}'" if is_published_known else f"{adopt} --work-tree DIRECTORY' before the push"
        if not is_published_known and not is_doubtful:
            advice += "; if they are not deployed, because they left a removed intent, write the state Terminated"
        yield _adoption_problem(subject, states[subject], services, documents, severity, advice)


def _adoption_problem(
    subject: IntentSubject,
    state: IntentState,
    services: list[ServiceTarget],
    documents: Documents,
    severity: Severity,
    advice: str,
) -> Problem:
    named = ", ".join(f"{path} for {target}" for path, target in services[:_NAMED])
    more = f" and {len(services) - _NAMED} more" if len(services) > _NAMED else ""
    message = (
        f"{subject_text(subject)} is {state.value}, but it would undeploy services that are deployed without it:"
        f" {named}{more}; {advice}"
    )
    for (kind, name), entry in documents.entries.items():
        if kind in INTENT_KINDS and name == subject:
            return replace(entry.problem(("data", "state"), message), severity=severity)
    return Problem(message, path=services[0][0], severity=severity)


def _leaving(former: FormerGovernance, intents: tuple[Intent, ...], revision: Revision) -> Iterator[LeftService]:
    """Yield the services that the former intents govern and the present ones do not."""
    former_intents = intents_of(former.governance)
    if _named(former_intents) <= _named(intents):
        return
    before = governing_intents(former_intents, former.services)
    after = governing_intents(intents, before)
    lost: dict[tuple[str, str | None], tuple[Intent, bool]] = {}
    for service, intent in before.items():
        if service not in after:
            key = service[0], intent.target
            is_deployed = service not in former.withheld
            lost[key] = intent, is_deployed or (key in lost and lost[key][1])
    for (path, target), (intent, is_deployed) in lost.items():
        content = service_content(path, target, former.tree).digest if is_deployed else None
        yield LeftService(path, target, intent.subject, str(revision), content)


def _named(intents: Iterable[Intent]) -> set[tuple[str, str | None]]:
    return {(path, intent.target) for intent in intents for paths in intent.apps.values() for path in paths}


def _left_order(left: LeftService) -> tuple[str, str]:
    return left.path, left.target or ""


REVIEW_RULES = (intent_problems, coverage_problems)

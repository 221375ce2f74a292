"""Ensures that governance begins and ends only by an act: left services stay as published, adopted ones run on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.intents.documents.release import RELEASE
from zkdeployment.intents.documents.values import IntentState, subject_text
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.governance import (
    INTENT_KINDS,
    NO_GOVERNANCE,
    Governance,
    governing_intents,
    is_governed,
    read_intents,
)
from zkdeployment.publishing.left_service import LeftService

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import Targets
    from zkdeployment.documents.collection import Documents
    from zkdeployment.intents.documents.release import ServiceRelease
    from zkdeployment.intents.documents.values import Intent, IntentSubject
    from zkdeployment.publishing.targets.compilation import Compilation
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.tree.values import Tree


@dataclass(frozen=True, slots=True)
class FormerGovernance:
    """A published state: its governance, its tree, its targets, and the services withheld from these.

    ``tree`` is the tree of all files, from which contents are read; an interrupted publication may have changed
    the live tree.
    """

    governance: Governance
    tree: Tree
    targets: Targets
    withheld: frozenset[ServiceTarget] = frozenset()

    @property
    def services(self) -> Iterator[ServiceTarget]:
        """The path and the target of each service of the tree."""
        yield from self.withheld
        for target, assignments in self.targets.items():
            for assignment in assignments:
                yield assignment.path, target


@dataclass(frozen=True, slots=True)
class GovernanceChange:
    """The governance after a change.

    ``left`` are the services that leave governance with the change. ``releases`` are the documents that release
    services which left earlier, ``outdated`` the documents that release another content of such services,
    ``pending`` the documents that lack approvals.
    """

    after: Governance = NO_GOVERNANCE
    left: tuple[LeftService, ...] = ()
    releases: tuple[ServiceRelease, ...] = ()
    outdated: tuple[ServiceRelease, ...] = ()
    pending: tuple[ServiceRelease, ...] = ()


def change_governance(
    former: FormerGovernance, documents: Documents, text: Tree, tree: Tree, revision: Revision
) -> GovernanceChange:
    """Return the governance after a change to ``tree`` that is published with ``documents`` as ``revision``.

    ``text`` is the tree of all files, from which contents are read; ``tree`` also has nodes that are in no file. A
    service that left governance stays left until a release of its content, or an intent, covers it, or until the
    service is gone from the tree.
    """
    intents = read_intents(documents)
    found = (one for one in _leaving(former, intents, revision) if one.path in tree)
    leaving = tuple(sorted(found, key=_order))
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
    after = Governance(intents, tuple(sorted((*kept, *leaving), key=_order)))
    return GovernanceChange(after, leaving, tuple(releases), tuple(outdated), tuple(pending))


def left_problems(change: GovernanceChange, documents: Documents, text: Tree) -> Iterator[Problem]:
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
    before = governing_intents(former.intents, ended)
    gained: dict[IntentSubject, list[ServiceTarget]] = {}
    owners = governing_intents(change.after.intents, ended)
    for service, intent in sorted(owners.items(), key=lambda item: item[0]):
        if service not in before or before[service].subject != intent.subject:
            gained.setdefault(intent.subject, []).append(service)
    states = {intent.subject: intent.state for intent in change.after.intents}
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
    named = ", ".join(f"{path} for {target}" for path, target in services[:_SHOWN])
    more = f" and {len(services) - _SHOWN} more" if len(services) > _SHOWN else ""
    message = (
        f"{subject_text(subject)} is {state.value}, but it would undeploy services that are deployed without it:"
        f" {named}{more}; {advice}"
    )
    for (kind, name), entry in documents.entries.items():
        if kind in INTENT_KINDS and name == subject:
            return replace(entry.problem(("data", "state"), message), severity=severity)
    return Problem(message, path=services[0][0], severity=severity)


#: The most services that a problem names.
_SHOWN = 5


def _leaving(former: FormerGovernance, intents: tuple[Intent, ...], revision: Revision) -> Iterator[LeftService]:
    """Yield the services that the former intents govern and the present ones do not."""
    if _named(former.governance.intents) <= _named(intents):
        return
    before = governing_intents(former.governance.intents, former.services)
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


def _order(left: LeftService) -> tuple[str, str]:
    return left.path, left.target or ""

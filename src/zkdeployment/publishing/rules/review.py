"""Reviews the files of a tree: parses, lints and compiles them, and reads the documents beside them.

A review does not depend on the live tree or on hosts, which ``changes`` checks. Every act passes ``check_change``
before it is pushed: the same checks as those of ``lint`` and the hooks.
"""

from __future__ import annotations

import hashlib
from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.features import installed
from zkdeployment.base.host import Identity, is_host_name
from zkdeployment.base.source_files import Correction, Problem, Severity, SourceFile
from zkdeployment.base.values import dataclass
from zkdeployment.documents.collection import Documents
from zkdeployment.documents.reading import document_files, nested_files, nested_problems, read_documents
from zkdeployment.publishing.places import PublishingPlaces
from zkdeployment.publishing.rules.convergence import PublicationSnapshot
from zkdeployment.publishing.rules.precedence import placement_problems, service_order
from zkdeployment.publishing.rules.quarantines import QUARANTINE, lifted_quarantine_problems, quarantine_problems
from zkdeployment.publishing.section import NO_BASIS, ApprovalObjection, ChangeBasis, section
from zkdeployment.publishing.targets.compilation import Compilation, Recompilation, compile_tree
from zkdeployment.publishing.targets.properties import has_property
from zkdeployment.strategies.documents import strategy_in_force
from zkdeployment.strategies.strategy import selects_only_by_name
from zkdeployment.tree.diff import diff
from zkdeployment.tree.links import relinked_nodes
from zkdeployment.tree.lint import LintResult, lint, sort_problems, tree_files
from zkdeployment.tree.values import SYMBOLIC_LINK, Nodes, Tree, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.publication import Targets
    from zkdeployment.publishing.governance import Governance


@dataclass(frozen=True, slots=True)
class PartCheck:
    """The problems of a part of a tree: of its ``nodes``, and of its ``links``, each with the link."""

    nodes: tuple[Problem, ...]
    links: tuple[tuple[tuple[str, str], str], ...]


def check_parts(linted: LintResult, last: Review | None) -> dict[str, PartCheck]:
    """Return the problems of each part of a tree that has any, by its path.

    Parts that are unchanged since the ``last`` review are not judged again.
    """
    tree = linted.tree
    known = {} if last is None else last.checks
    changed = frozenset(tree.parts) if last is None else tree.changed_parts(last.linted.tree)
    checks = {top: check for top, check in known.items() if top not in changed}
    for top in changed.intersection(tree.parts):
        part = tree.parts[top]
        nodes = (*_misplaced(tree, part), *_without_deploy_node(part))
        links = tuple(_linked_targets(tree, linted.links[top].links))
        if nodes or links:
            checks[top] = PartCheck(nodes, links)
    return checks


def _linked_targets(tree: Tree, links: Iterable[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield an error for each symbolic link in place of a target, because only nodes are targets."""
    for path, name in links:
        if name == f"deploy{SYMBOLIC_LINK}":
            service, place = path, "deploy"
        elif name.endswith(SYMBOLIC_LINK) and path.endswith("/deploy"):
            service, place = parent_path(path), f"deploy/{name.removesuffix(SYMBOLIC_LINK)}"
        else:
            continue
        if has_property(tree, service, "type"):
            yield (path, name), f"{place} of a service must be a node, not a link"


def _misplaced(tree: Tree, part: Nodes) -> Iterator[Problem]:
    """Yield a warning for each misplaced ``n``, and for each node named ``deploy`` with capital letters."""
    for path in [path for path in part if path[-1] in "yY" and path[-7:].lower() == "/deploy"]:  # few are left
        name = path[-7:]
        if name == "/deploy" and not part[path]:
            continue
        if not has_property(tree, parent_path(path), "type") or has_property(tree, path, "type"):
            continue
        if name != "/deploy":
            message = f"{name} is not read; a service is deployed by its child /deploy, in small letters"
            correction = Correction(name, "/deploy")
            yield Problem(message, path=path, severity=Severity.WARNING, correction=correction)
        elif has_property(tree, path, "n"):
            message = "n of a deploy node is not read; set n on each target below the node"
            yield Problem(message, path=path, severity=Severity.WARNING)


def _without_deploy_node(part: Nodes) -> Iterator[Problem]:
    """Yield a warning for each node that looks like a service, but has no child ``deploy`` in any spelling."""
    for path, properties in part.items():  # this code runs for each node of the tree
        if "version" not in properties or "type" not in properties or path.startswith("/roles/"):
            continue
        if f"deploy{SYMBOLIC_LINK}" in properties or not part.keys().isdisjoint(_deploy_nodes(path)):
            continue
        message = (
            "the node has a type and a version, but no child /deploy, so no host deploys it; add /deploy, with the"
            " hosts and roles that deploy it, or without any"
        )
        yield Problem(message, path=path, severity=Severity.WARNING, correction=Correction("", "/deploy"))


def _deploy_nodes(path: str) -> tuple[str, ...]:
    return tuple(f"{path}/{name}" for name in ("deploy", "Deploy", "DEPLOY"))


#: Increment this number whenever the same text results in another tree, other targets or other documents: the new
#: program then does not rely on publications of an older program.
RULES = 6


@dataclass(frozen=True, slots=True)
class Review:
    """The files of a tree, parsed, linted and compiled; ``problems`` are all problems, sorted by place.

    ``compilation`` has the targets of the text alone; ``documents`` are the documents beside the tree. Reviews
    with equal fingerprints have equal texts. ``signed``: the publication will be signed, so all assignments have
    the digests of their properties. ``checks`` are the problems of each part of the tree that has any.
    """

    fingerprint: str
    linted: LintResult
    compilation: Compilation
    problems: tuple[Problem, ...]
    documents: Documents = Documents()
    signed: bool = False
    checks: Mapping[str, PartCheck] = field(default_factory=dict)

    @property
    def targets(self) -> Targets:
        """The targets that hosts deploy: those of the text without the withheld services."""
        return self.compilation.targets

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid publication."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def spare_strategies(self) -> tuple[Problem, ...]:
        """The strategies beside the one in force: errors of lint that do not prevent a publication."""
        return self.documents.spare


def lifting_problems(reviewed: Review, before: Iterable[SourceFile]) -> tuple[Problem, ...]:
    """Return the errors of a tree that wants versions which were in quarantine ``before`` the change to it."""
    quarantines = read_documents(document_files(before)).of(QUARANTINE).values()
    problems = lifted_quarantine_problems(reviewed.targets, reviewed.documents, quarantines)
    return tuple(place(problem, reviewed.linted) for problem in problems)


def lint_problems(
    reviewed: Review,
    before: Sequence[SourceFile] = (),
    objection: ApprovalObjection = None,
    governed: Sequence[str] = (),
) -> list[Problem]:
    """Return the problems of a tree, and those of its change from the files ``before``, sorted by place.

    Services at and below the ``governed`` paths need an intent. ``objection`` judges the approvals in the change.
    """
    found = section().judge_files(before, reviewed, objection)
    ungoverned = section().governance(reviewed.documents).ungoverned_problems(governed, reviewed.compilation.whole)
    changes = (*lifting_problems(reviewed, before), *found.problems, *found.refusals)
    changes += tuple(place(one, reviewed.linted) for one in ungoverned)
    return sort_problems([*reviewed.problems, *reviewed.spare_strategies, *changes])


def fingerprint(files: Sequence[SourceFile], *, signed: bool = False) -> str:
    """Return a hash of the tree files, the documents and the rules of this program.

    The hash for a publication that is to be ``signed`` is another one: its targets have more digests.
    """
    digest = hashlib.sha256(f"{RULES}{' signed' if signed else ''}\n".encode())
    for file in (*tree_files(files), *document_files(files), *nested_files(files)):
        digest.update(f"{file.name}\n{len(file.content)}\n".encode())
        digest.update(file.content)
    return digest.hexdigest()


def review(files: Iterable[SourceFile], last: Review | None = None, *, signed: bool = False) -> Review:
    """Return the review of files, for ``lint``, ``plan`` and the syncer.

    Content that is unchanged since the ``last`` review is not judged again. ``signed`` is as in ``Review``, and
    the same as in ``last``.
    """
    files = tuple(files)
    digest = fingerprint(files, signed=signed)
    if last is not None and last.fingerprint == digest:
        return last
    linted = lint(files, None if last is None else last.linted)
    documents = read_documents(document_files(files), None if last is None else last.documents)
    compilation = _compile(linted, section().governance(documents), last, with_properties=signed)
    with_errors = _paths(linted, Severity.ERROR)
    at_errors = with_errors.union(*(_above(path) for path in with_errors))
    with_warnings = _paths(linted, Severity.WARNING)
    # Files with documents alone need no tree.
    placed = [*(linted.problems if linted.parsed or not documents.files else ()), *documents.errors]
    for problem in compilation.problems:
        # Errors in lines of the node, or below it, may be the cause of this conflict.
        if problem.path in at_errors:
            continue
        # A link to nodes of the live tree can be followed only at publication.
        severity = Severity.WARNING if problem.path in with_warnings else problem.severity
        placed.append(place(replace(problem, severity=severity), linted))
    checks = check_parts(linted, last)
    for check in checks.values():
        placed += (Problem(message, *linted.merged.links[link], path=link[0]) for link, message in check.links)
        placed += (place(problem, linted) for problem in check.nodes)
    placed += (place(problem, linted) for problem in quarantine_problems(compilation.targets, documents))
    placed += (place(problem, linted) for problem in _placement_problems(compilation.targets, documents))
    placed += nested_problems(files)
    text = linted.tree if linted.parsed else None
    for rule in (rule for places in installed(PublishingPlaces) for rule in places.review_rules()):
        placed += rule(documents, text, compilation.whole)
    return Review(digest, linted, compilation, tuple(sort_problems(placed)), documents, signed, checks)


def _compile(
    linted: LintResult, governance: Governance, last: Review | None, *, with_properties: bool
) -> Compilation:
    if last is None:
        return compile_tree(linted.tree, governance, with_properties=with_properties)
    before = last.linted
    changed = diff(before.tree, linted.tree).paths | relinked_nodes(before.links, linted.links)
    since = Recompilation(before.tree, last.compilation, changed)
    return compile_tree(linted.tree, governance, since=since, with_properties=with_properties)


def _placement_problems(targets: Targets, documents: Documents) -> Iterator[Problem]:
    """Yield the waits between services that never end under the strategy, if it selects hosts only by name.

    The names must be those of the targets: a target is the id or the name of a host, and a strategy may use the
    other one.
    """
    strategy = None if documents.errors else strategy_in_force(documents)
    if strategy is None:
        return
    hosts = [Identity(name, name) for name in targets if is_host_name(name)]
    if selects_only_by_name(strategy, [host.id for host in hosts]):
        yield from placement_problems(
            service_order({}, targets, hosts, {}), strategy, PublicationSnapshot(None), targets
        )


def place(problem: Problem, linted: LintResult) -> Problem:
    """Return a problem with the place of its node, or of the nearest node above that has a place."""
    path = problem.path
    while problem.file is None and path:
        if path in linted.positions:
            file, line, column = linted.positions[path]
            return replace(problem, file=file, line=line, column=column)
        path = parent_path(path)
    return problem


def _paths(linted: LintResult, severity: Severity) -> set[str]:
    problems = (problem for problem in linted.problems if problem.severity is severity)
    return {problem.path for problem in problems if problem.path is not None}


def _above(path: str) -> Iterator[str]:
    while path := parent_path(path):
        yield path


def check_change(
    before: Sequence[SourceFile],
    after: Sequence[SourceFile],
    objection: ApprovalObjection,
    *,
    basis: ChangeBasis = NO_BASIS,
) -> Iterable[Problem]:
    """Return the problems of the files ``after`` an act, and of the change from those ``before`` it.

    ``objection`` is called for approvals that were not accepted before. The syncer compares the published files
    with the act. Therefore an act may correct a tip that the syncer refuses, but may not add a refusal. Raises
    ``RefusedError`` if the change breaks the life cycle of intents.
    """
    reviewed = review(after)
    refusals, warnings = _judge(before, reviewed, objection, basis)
    if refusals and basis.files is not None:
        published = basis.files()
        at_tip, _ = _judge(published, review(before), objection, basis)
        if at_tip:  # the syncer refuses this tip, so it will never be published
            refusals, warnings = _judge(published, reviewed, objection, basis)
            refusals = [refusal for refusal in refusals if refusal not in at_tip]
    if refusals:
        heading = "the act was not committed: it would break the life cycle of intents:"
        raise RefusedError("\n  ".join([heading, *refusals]))
    return (*reviewed.problems, *lifting_problems(reviewed, before), *warnings)


def _judge(
    before: Sequence[SourceFile], reviewed: Review, objection: ApprovalObjection, basis: ChangeBasis
) -> tuple[list[str], list[Problem]]:
    """Return the refusals of a change by the life cycle of intents, and warnings about leaving services."""
    found = section().judge_files(before, reviewed, objection, basis)
    errors = [problem for problem in found.problems if problem.severity is Severity.ERROR]
    refusals = [*(refusal.message for refusal in found.refusals), *map(str, errors)]
    return refusals, [problem for problem in found.problems if problem not in errors]

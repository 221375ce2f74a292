"""Commits of check configurations and monitoring systems, and acts on instances: retry, abandon, allow removals.

Each function that commits raises what ``TreeCommits.commit`` raises. ``permit`` is called with the path of the
object of the configuration at the tip of the branch; it raises ``ForbiddenError`` if the author may not act there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.act import ActRight
from zkdeployment.base.errors import NotFoundError, RefusedError, TreeError
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.checks.documents import CHECK, CHECK_GROUP, CHECK_SCHEMA, ON_CALL, SYSTEM
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.listing import instance_to_view, instance_view, read_instance_id
from zkdeployment.documents.edits import with_changed_data, with_new_document, without_document
from zkdeployment.documents.forms import form_faults, one_of
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, CommitOutcome, FileChanges
from zkdeployment.publishing.rules.review import check_change
from zkdeployment.service.act import Actor, PlannedAct, Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.checks.ports import CheckAdapters
    from zkdeployment.checks.rules.instance import CheckInstance
    from zkdeployment.documents.collection import DocumentEntry, Documents
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits

    Permission: TypeAlias = Callable[[str], None]

#: The kinds of documents that are created together.
_KINDS = {kind.name: kind for kind in (SYSTEM, CHECK, CHECK_GROUP, ON_CALL)}


def new_check_documents(file: SourceFile) -> Documents:
    """Return the configurations and monitoring systems in a file; raises ``TreeError`` with all faults."""
    documents = read_documents([file])
    others = [entry for entry in documents.entries.values() if entry.kind.name not in _KINDS]
    expected = one_of(kind.schema for kind in _KINDS.values())
    problems = [
        *documents.problems,
        *(entry.problem(("schema",), f"expected {expected}, found {entry.kind.schema}") for entry in others),
    ]
    if problems:
        raise TreeError("\n".join(map(str, problems)))
    if not documents.entries:
        raise TreeError(f"{file.name} holds no check configuration: expected a document with schema: {expected}")
    return documents


def check_content(name: str, data: object) -> dict[str, Any]:
    """Return the document of a configuration; raises ``TreeError`` with all faults of ``data``."""
    content: dict[str, Any] = {"schema": CHECK_SCHEMA, "metadata": {"name": name}, "data": data}
    faults = list(form_faults(content, CHECK.form)) or list(CHECK.faults(content))
    if faults:
        raise TreeError("; ".join(f"{'.'.join(map(str, way))}: {message}" for way, message in faults))
    return content


def with_new_checks(
    files: Sequence[SourceFile], contents: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, bytes | None]:
    """Return the files of new documents, given by kind and name, without documents that exist with this content.

    Raises ``RefusedError`` if another document has one of the names.
    """
    entries = read_documents(document_files(files)).entries
    changed: dict[str, bytes | None] = {}
    for (kind, name), content in contents.items():
        entry = entries.get((kind, (name,)))
        if entry is None:
            changed |= with_new_document(files, _KINDS[kind], (name,), content)
        elif entry.content != content:
            raise RefusedError(
                f"there is a {kind} {name} already: {entry.file} holds its document; change that document, or"
                " choose another name"
            )
    return changed


def with_changed_check(
    files: Sequence[SourceFile], name: str, content: Mapping[str, Any]
) -> dict[str, bytes | None]:
    """Return the changed file after a configuration gets other values; raises ``NotFoundError``."""
    return with_changed_data(files, find_check(files, name), content["data"])


def without_check(files: Sequence[SourceFile], name: str) -> dict[str, bytes | None]:
    """Return the changed file after a configuration is removed; raises ``NotFoundError``."""
    return without_document(files, find_check(files, name))


def find_check(files: Sequence[SourceFile], name: str) -> DocumentEntry:
    """Return the document of a configuration; raises ``NotFoundError`` if it does not exist."""
    entry = read_documents(document_files(files)).entries.get((CHECK.name, (name,)))
    if entry is None:
        raise NotFoundError(
            f"there is no check {name} at the tip of the branch; 'zkdeployment checks list' shows those that are"
            " published"
        )
    return entry


#: The limit of documents that a commit message names.
_NAMED = 5


def _anywhere(_path: str) -> None:
    """Permit acts on configurations of all paths."""


def create_checks(
    commits: TreeCommits,
    contents: Mapping[tuple[str, str], Mapping[str, Any]],
    author: Author,
    reason: str = "",
    *,
    dry_run: bool = False,
) -> CommitOutcome:
    """Add documents of configurations and monitoring systems, given by kind and name, each in a file of its own.

    Raises ``RefusedError`` if another document has one of the names.
    """
    names = listing([f"{kind} {name}" for kind, name in contents], _NAMED)

    def compute(branch: BranchSnapshot) -> FileChanges:
        return FileChanges(with_new_checks(branch.files, contents), _subject(f"Create {names}", reason))

    return _commit(commits, author, compute, dry_run=dry_run)


def change_check(
    commits: TreeCommits,
    name: str,
    content: Mapping[str, Any],
    author: Author,
    reason: str = "",
    *,
    permit: Permission = _anywhere,
) -> CommitOutcome:
    """Replace the values of a configuration; raises ``NotFoundError`` if no configuration has this name."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        permit(find_check(branch.files, name).value.path)
        changed = with_changed_check(branch.files, name, content)
        return FileChanges(changed, _subject(f"Change check {name}", reason))

    return _commit(commits, author, compute)


def delete_check(
    commits: TreeCommits,
    name: str,
    author: Author,
    reason: str = "",
    *,
    permit: Permission = _anywhere,
    dry_run: bool = False,
) -> CommitOutcome:
    """Remove a configuration, so that all its instances are undeployed; raises ``NotFoundError``."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        permit(find_check(branch.files, name).value.path)
        return FileChanges(without_check(branch.files, name), _subject(f"Delete check {name}", reason))

    return _commit(commits, author, compute, dry_run=dry_run)


def _commit(
    commits: TreeCommits,
    author: Author,
    compute: Callable[[BranchSnapshot], FileChanges],
    *,
    dry_run: bool = False,
) -> CommitOutcome:
    return commits.commit(CommitOrder(author=author, compute=compute, check=check_change), dry_run=dry_run)


def _subject(act: str, reason: str) -> str:
    return f"{act}: {reason}" if reason else act


#: The right to the acts on checks.
ACT_ON_CHECK = ActRight("act on checks of services")


class _ActOnChecks(PlannedAct["CheckAdapters"]):
    RIGHT = ACT_ON_CHECK

    @classmethod
    def served(cls, visit: Visit) -> CheckAdapters:
        """Return the adapters of operators for checks."""
        return check_adapters_of(visit.adapters)


@dataclass(frozen=True, kw_only=True)
class RetryInstance(_ActOnChecks):
    """Let the monitoring system try a failed deployment, or undeployment, again; 409 in any other state."""

    OPERATION = "retry_instance"
    REQUEST = "An act that needs no reason."
    NEEDS_BODY = False
    NEEDS_REASON = False

    uuid: str

    def perform(self, adapters: CheckAdapters, actor: Actor) -> Mapping[str, Any]:
        instance = adapters.find(read_instance_id(self.uuid))
        path = (instance.key.path,) if instance.key.path else ()
        (changed,) = adapters.retry([instance], actor.record(self, f"checks retry {instance.id}", *path))
        now, host = actor.now(), changed.key.host
        result = adapters.results([changed], now).get(changed.id)
        return instance_to_view(changed, result, adapters.fleet.maintenance(now).get(host))

    @classmethod
    def answer(cls, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_schema("check-instance", outcome)


@dataclass(frozen=True, kw_only=True)
class AbandonSystem(_ActOnChecks):
    """End the instances of a monitoring system that is gone; return them. 409 while published checks name it."""

    OPERATION = "abandon_system"

    system: str

    def perform(self, adapters: CheckAdapters, actor: Actor) -> tuple[CheckInstance, ...]:
        return adapters.abandon(self.system, actor.record(self, f"checks abandon --system {self.system}"))

    @classmethod
    def answer(cls, outcome: tuple[CheckInstance, ...]) -> Mapping[str, Any]:
        shown = [instance_view(instance, None).to_json() for instance in outcome]
        return with_schema("check-instances", {"instances": shown})


@dataclass(frozen=True, kw_only=True)
class AllowRemoval(_ActOnChecks):
    """Allow a bridge to remove many checks that the service does not know, for an hour."""

    OPERATION = "allow_removal"

    system: str

    def perform(self, adapters: CheckAdapters, actor: Actor) -> Mapping[str, Any]:
        act = actor.record(self, f"checks allow-removal --system {self.system}")
        return {"monitoring": self.system, "until": adapters.allow_removal(self.system, act)}

    @classmethod
    def answer(cls, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_schema("allowed-removal", outcome)

"""Changes of intents in the files of a revision: acts, documents, and restored content."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.source_files import SourceFile, is_tree_file
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.documents.edits import REMOVED, change_document, remove_document, with_new_document
from zkdeployment.intents.documents import (
    CLUSTER,
    GROUP,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    FleetStop,
    Intent,
    IntentState,
    IntentSubject,
    UpdateRule,
    subject_text,
)
from zkdeployment.intents.rules.content import intent_content
from zkdeployment.intents.rules.instances import IntentSnapshot
from zkdeployment.publishing.acts.commits import FileChanges
from zkdeployment.publishing.rules.review import Review, review
from zkdeployment.tree.diff import diff, stored_alike
from zkdeployment.tree.values import PROPERTY_LINK

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.documents.collection import DocumentEntry, Documents
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.documents.yaml_values import Way
    from zkdeployment.tree.values import Tree


@dataclass(frozen=True, slots=True)
class PlacedIntent:
    """An intent in one revision: its content, the text of its file, and its document's place in that file."""

    snapshot: IntentSnapshot
    file: str
    position: int
    text: str

    @property
    def intent(self) -> Intent:
        """The intent as its document describes it."""
        return self.snapshot.intent


def find_intent(
    files: Sequence[SourceFile],
    subject: IntentSubject,
    *,
    place: str = "at the tip of the branch",
    hint: str = "",
) -> PlacedIntent:
    """Return the intent of a subject; raises ``NotFoundError`` if the files have no valid document of it.

    ``place`` names the files in the error, which ends with the ``hint`` if no document has errors.
    """
    reviewed = review(files)
    entry = _entry(reviewed.documents, subject)
    if entry is None:
        faulty = sorted({problem.file for problem in reviewed.documents.problems if problem.file})
        hint = f"; documents in {', '.join(faulty)} have errors: see 'zkdeployment lint'" if faulty else hint
        raise NotFoundError(
            f"there is no intent {subject_text(subject)} {place}: expected one of those that"
            f" 'zkdeployment intent list' shows{hint}"
        )
    text = _content(files, entry.file)
    snapshot = IntentSnapshot(entry.value, intent_content(entry.value, reviewed.linted.tree))
    return PlacedIntent(snapshot, entry.file, entry.position, text)


def with_state(
    placed: PlacedIntent, state: IntentState, approval: Approval | None = None
) -> dict[str, bytes | None]:
    """Return the changed file after an act gives an intent a new state and, if given, a new approval."""
    changes: dict[Way, object] = {}
    if placed.intent.state is not state:
        changes["data", "state"] = state.value
    if approval is not None:
        changes["data", "approval"] = approval.to_json()
    return _changed(placed, changes)


def with_new_intent(files: Sequence[SourceFile], intent: Intent) -> dict[str, bytes | None]:
    """Return the file of a new intent, which is Created; raises ``RefusedError`` if the subject exists."""
    entry = _entry(review(files).documents, intent.subject)
    if entry is not None:
        raise RefusedError(
            f"{subject_text(intent.subject)} exists already: {entry.file} holds its document; change it instead"
        )
    return _with_document(files, _new(intent))


def with_removed_intent(files: Sequence[SourceFile], intent: Intent) -> dict[str, bytes | None]:
    """Return the file that restores the published document of an intent; empty if the document exists."""
    is_there = _entry(review(files).documents, intent.subject) is not None
    return {} if is_there else _with_document(files, intent)


def _with_document(files: Sequence[SourceFile], intent: Intent) -> dict[str, bytes | None]:
    kind: DocumentKind[Any] = CLUSTER if isinstance(intent, ClusterIntents) else GROUP
    return with_new_document(files, kind, intent.subject, intent.to_document())


def described_as(present: Intent, wanted: Intent) -> Intent:
    """Return an intent with the description of another one, and with its own state and approval."""
    if isinstance(wanted, ClusterIntents):
        return replace(wanted, state=present.state)
    return replace(wanted, state=present.state, approval=present.approval)


def with_description(placed: PlacedIntent, wanted: Intent) -> dict[str, bytes | None]:
    """Return the changed file after an intent gets another description; its state and approval stay."""
    present = placed.intent
    changes: dict[Way, object] = {}
    if isinstance(present, DeploymentIntentGroup) and isinstance(wanted, DeploymentIntentGroup):
        if present.composite_profile != wanted.composite_profile:
            changes["data", "composite-profile"] = wanted.composite_profile
        if present.update is not wanted.update:
            is_default = wanted.update is UpdateRule.TERMINATE
            changes["data", "update"] = REMOVED if is_default else wanted.update.value
        if present.fleet_stop is not wanted.fleet_stop:
            is_default = wanted.fleet_stop is FleetStop.FLEET
            changes["data", "fleet-stop"] = REMOVED if is_default else wanted.fleet_stop.value
    key = "network-intents" if isinstance(present, ClusterIntents) else "apps"
    changes |= {("data", key, *way): value for way, value in _parts_changes(present.apps, wanted.apps).items()}
    return _changed(placed, changes)


def without_intent(placed: PlacedIntent) -> dict[str, bytes | None]:
    """Return the changed file after the removal of the document of an intent."""
    rest = remove_document(placed.text, placed.position)
    return {placed.file: rest.encode() if rest.strip() else None}


def unpublished_act(subject: IntentSubject, tip: Intent | None, published: Intent | None) -> str | None:
    """Return the earlier act that is in the branch but not published; ``None`` if there is no such act.

    Acts change states and approvals. A subject without a document counts as Created.
    """
    old, new = _progress(published), _progress(tip)
    if old == new:
        return None
    found = "it has another approval" if old[0] is new[0] else f"it is {new[0].value}"
    before = "does not have it" if published is None else f"has it as {old[0].value}"
    return (
        f"an earlier act on {subject_text(subject)} is not published yet: at the tip of the branch {found}, the"
        f" last publication {before}"
    )


def _progress(intent: Intent | None) -> tuple[IntentState, Approval | None]:
    return (IntentState.CREATED, None) if intent is None else (intent.state, intent.approval)


def _new(intent: Intent) -> Intent:
    if isinstance(intent, ClusterIntents):
        return replace(intent, state=IntentState.CREATED)
    return replace(intent, state=IntentState.CREATED, approval=None)


def _entry(documents: Documents, subject: IntentSubject) -> DocumentEntry | None:
    entries = documents.entries
    return entries.get((GROUP.name, subject)) or entries.get((CLUSTER.name, subject))


def _content(files: Sequence[SourceFile], name: str) -> str:
    content = next((file.content for file in files if file.name == name), b"")
    return content.decode("utf-8-sig")


def _parts_changes(
    present: Mapping[str, tuple[str, ...]], wanted: Mapping[str, tuple[str, ...]]
) -> dict[Way, object]:
    """Return the changes of a mapping of names to paths; new names come first, so that it is never empty."""
    changes: dict[Way, object] = {
        (name,): list(paths) for name, paths in wanted.items() if present.get(name) != paths
    }
    return changes | {(name,): REMOVED for name in present if name not in wanted}


def _changed(placed: PlacedIntent, changes: Mapping[Way, object]) -> dict[str, bytes | None]:
    if not changes:
        return {}
    return {placed.file: change_document(placed.text, placed.position, changes).encode()}


#: The most nodes that a message names.
_NAMED = 5


def restored_content(
    present: Sequence[SourceFile], past: Sequence[SourceFile], subject: IntentSubject, digest: str
) -> tuple[dict[str, bytes | None], frozenset[str]]:
    """Return the files and the paths of nodes that change when an intent gets the content with this digest again.

    Whole files are restored from the ``past`` ones: those that define nodes of the past or present content, or
    targets of its links. The other keys of the document, such as ``update``, stay. Raises ``RefusedError`` if the
    past files have another content, or if other nodes or properties would change, too.
    """
    name = subject_text(subject)
    before = find_intent(past, subject, place="in the revision of the instance").snapshot
    if before.content.digest != digest:
        raise RefusedError(
            f"the content of {name} cannot be restored: expected {digest}, found {before.content.digest} in the"
            " revision of the instance; restore it by hand, then approve it"
        )
    placed = find_intent(present, subject)
    reviewed, former = review(present), review(past)
    contents = (placed.snapshot.content, before.content)
    owned = {path for content in contents for path in content.nodes}
    linked = {source for content in contents for source in content.sources}
    files = _restored_files(reviewed, former, owned.union(path for path, _ in linked))
    files |= with_description(placed, _with_parts(placed.intent, before.intent))
    result = FileChanges(files, "").apply(present)
    trees = (reviewed.linted.tree, review(result).linted.tree)
    changed = diff(*trees).paths
    others = sorted(path for path in changed - owned if not _changes_only(path, linked, *trees))
    if others:
        names = ", ".join(sorted(name for name in files if is_tree_file(name)))
        raise RefusedError(
            f"the content of {name} cannot be restored alone: {names} would also change"
            f" {listing(others, _NAMED)}; restore the nodes by hand, then approve them"
        )
    found = find_intent(result, subject).snapshot.content.digest
    if found != digest:
        raise RefusedError(
            f"the content of {name} cannot be restored from its files: expected {digest}, found {found};"
            " restore it by hand, then approve it"
        )
    return files, changed


def _with_parts(present: Intent, past: Intent) -> Intent:
    """Return an intent with the apps and the profile of another one, which belong to the content."""
    if isinstance(present, DeploymentIntentGroup) and isinstance(past, DeploymentIntentGroup):
        return replace(present, apps=past.apps, composite_profile=past.composite_profile)
    return replace(present, apps=past.apps)


def _changes_only(path: str, linked: Collection[tuple[str, str]], old: Tree, new: Tree) -> bool:
    """Whether a node differs between two trees only in ``linked`` properties, which are given by node and name."""
    before, after = (tree.nodes.get(path, {}) for tree in (old, new))
    changed = {
        key.removesuffix(PROPERTY_LINK)
        for key in before.keys() | after.keys()
        if key not in before or key not in after or not stored_alike(before[key], after[key])
    }
    return bool(changed) and all((path, name) in linked for name in changed)


def _restored_files(present: Review, past: Review, owned: Collection[str]) -> dict[str, bytes | None]:
    """Return the past content of the tree files that define these nodes, in the past or at present."""
    old, new = _contents(past), _contents(present)
    names = {
        file.name
        for reviewed in (present, past)
        for file, parsed in reviewed.linted.parsed.items()
        if any(path in owned for path in parsed.tree)
    }
    return {name: old.get(name) for name in sorted(names) if old.get(name) != new.get(name)}


def _contents(reviewed: Review) -> Mapping[str, bytes]:
    return {file.name: file.content for file in reviewed.linted.parsed}

"""The release of services that left the governance of their intents, as a commit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.names import check_node_path
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.documents.edits import with_changed_data, with_new_document, without_document
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.intents.acts.intents import require_seen
from zkdeployment.intents.documents import RELEASE, RELEASED, Approval, ServiceRelease
from zkdeployment.intents.rules.approvals import ReleaseSnapshot, cosigned
from zkdeployment.intents.rules.content import IntentContent, service_content
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, CommitOutcome, FileChanges
from zkdeployment.publishing.rules.review import Review, check_change, review
from zkdeployment.publishing.section import ApprovalVerifier, ChangeBasis

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from zkdeployment.base.publication import LeftService
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.fleet.store.audit import ActAudit
    from zkdeployment.intents.verification import ApprovalSigner
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits

#: The most services that a message names.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOrder:
    """The request to release left services at these ``paths``, with its author and reason.

    ``left`` are all services that left governance. ``permit`` raises an error if the author may not act on a path.
    ``contents`` are the digests of the contents that the author has seen, if the author named any.
    ``audit`` records the act. ``sign`` signs the approval of a release.
    """

    paths: Sequence[str]
    left: Sequence[LeftService]
    author: Author
    reason: str
    permit: Callable[[str], None] = lambda _path: None
    contents: Collection[str] = ()
    audit: ActAudit | None = None
    sign: ApprovalSigner | None = None


def release_services(commits: TreeCommits, order: ReleaseOrder, *, dry_run: bool = False) -> CommitOutcome:
    """Write the releases of left services, with their contents at the tip, into documents of their own.

    Releases that have taken effect are removed. If several people have to approve, the release stays pending and
    collects their signatures. Raises ``NotFoundError`` for a path that is not among the left services,
    ``ConfigurationError`` for one without its slash, ``RefusedError`` if a release would not count, and what
    ``TreeCommits.commit`` raises.
    """
    for path in order.paths:
        check_node_path(path)
        order.permit(path)
    released = tuple(_named(order))

    def compute(branch: BranchSnapshot) -> FileChanges:
        reviewed = review(branch.files)
        changed = _without_settled(branch.files, reviewed, order.left)
        for one in released:
            release = _release(commits, branch, reviewed, one, order)
            former = reviewed.documents.of(RELEASE).get(_subject(one))
            if former is None or not _is_same(former, release):
                changed |= _with_release(FileChanges(changed, "").apply(branch.files), release)
        return FileChanges(changed, f"Release {listing([str(one) for one in released], _NAMED)}: {order.reason}")

    check = partial(check_change, basis=ChangeBasis(left=order.left))
    outcome = commits.commit(CommitOrder(author=order.author, compute=compute, check=check), dry_run=dry_run)
    if order.audit is not None:
        order.audit.record(f"intent release {listing(list(order.paths), _NAMED)}", outcome)
    return outcome


def _subject(left: LeftService) -> tuple[str, ...]:
    return (left.path,) if left.target is None else (left.path, left.target)


def _is_same(former: ServiceRelease, release: ServiceRelease) -> bool:
    """Whether a release equals a former one, apart from its author and its reason."""
    is_same_content = former.approval.content == release.approval.content
    is_as_signed = (former.approval.signature is None) is (release.approval.signature is None)
    is_as_signed &= len(former.approval.also) == len(release.approval.also)
    return is_same_content and is_as_signed and replace(former, approval=release.approval) == release


def _named(order: ReleaseOrder) -> Iterator[LeftService]:
    """Yield the left services at the paths of an order; raises ``NotFoundError`` for another path."""
    for path in dict.fromkeys(order.paths):
        found = [one for one in order.left if one.path == path]
        if not found:
            known = listing(sorted({one.path for one in order.left}), _NAMED) if order.left else "found none"
            raise NotFoundError(
                f"{path} is not among the services that left the governance of an intent: expected one of them"
                f" ({known})"
            )
        yield from found


def _release(
    commits: TreeCommits,
    branch: BranchSnapshot,
    reviewed: Review,
    left: LeftService,
    order: ReleaseOrder,
) -> ServiceRelease:
    """Return the release of a left service, with the former signatures if these only lack further ones."""
    if left.path not in reviewed.linted.tree:
        raise RefusedError(f"{left.path} is not in the tree at the tip of the branch; nothing is to be released")
    content = service_content(left.path, left.target, reviewed.linted.tree)
    require_seen(left.path, content.digest, *order.contents)
    sign = order.sign
    approval = Approval(content.digest, order.author.email, order.reason, state=RELEASED if sign else "")
    release = ServiceRelease(left.path, left.former, left.revision, approval, left.target)
    verifier = commits.approvals
    if verifier is None:
        return release if sign is None else replace(release, approval=sign(release.subject, approval))
    former = reviewed.documents.of(RELEASE).get(_subject(left))
    if former is not None and former.names(left) and former.approval.content == content.digest:
        snapshot = ReleaseSnapshot(former, content)
        objection = verifier.objection(snapshot, branch.tip)
        if objection is None:
            return replace(former, is_pending=False)
        if sign is not None and objection == verifier.missing(snapshot):
            signed = sign(release.subject, replace(former.approval, by=approval.by, reason=order.reason, also=()))
            approved = cosigned(former.approval, signed)
            if approved is None:
                raise RefusedError(f"this person has approved the release of {left.path} already: {objection}")
            return _counted(verifier, branch, replace(former, approval=approved), content)
    if sign is not None:
        release = replace(release, approval=sign(release.subject, approval))
    return _counted(verifier, branch, release, content)


def _counted(
    verifier: ApprovalVerifier, branch: BranchSnapshot, release: ServiceRelease, content: IntentContent
) -> ServiceRelease:
    """Return a release, marked as pending if it only lacks approvals of other people.

    Raises ``RefusedError`` if its signatures do not count.
    """
    snapshot = ReleaseSnapshot(release, content)
    objection = verifier.objection(snapshot, branch.tip)
    if objection is not None and (release.approval.signature is None or objection != verifier.missing(snapshot)):
        raise RefusedError(
            f"the release of {release.path} does not count: {objection}; this fleet needs signed releases: use"
            f" 'zkdeployment intent release {release.path} --key FILE' at a terminal"
        )
    return replace(release, is_pending=objection is not None)


def pending_releases(commits: TreeCommits, outcome: CommitOutcome, paths: Collection[str]) -> Iterator[str]:
    """Yield, for each release of these paths after an act, the people whose approvals it lacks."""
    if commits.approvals is None:
        return
    reviewed = review(outcome.files)
    for release in reviewed.documents.of(RELEASE).values():
        if release.is_pending and release.path in paths:
            content = service_content(release.path, release.target, reviewed.linted.tree)
            missing = commits.approvals.missing(ReleaseSnapshot(release, content))
            yield f"{release.path} is not released yet: {missing}"


def _with_release(files: Sequence[SourceFile], release: ServiceRelease) -> dict[str, bytes | None]:
    """Return the changed file after a release is added, or its document gets other data."""
    content = release.to_document()
    subject = RELEASE.subject(content)
    entry = read_documents(document_files(files)).entries.get((RELEASE.name, subject))
    if entry is None:
        return with_new_document(files, RELEASE, subject, content)
    return with_changed_data(files, entry, content["data"])


def _without_settled(
    files: Sequence[SourceFile], reviewed: Review, left: Sequence[LeftService]
) -> dict[str, bytes | None]:
    """Return the changed files after the removal of releases that no longer release any left service."""
    changed: dict[str, bytes | None] = {}
    for (kind, _), entry in reviewed.documents.entries.items():
        if kind == RELEASE.name and not any(entry.value.names(one) for one in left) and entry.file not in changed:
            changed |= without_document(files, entry)
    return changed

"""The release of services that left the governance of their intents, as a commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.acts.checks import ChangeBasis, check_change
from zkdeployment.acts.seen_content import require_seen
from zkdeployment.documents.edits import render_document
from zkdeployment.documents.file_changes import without_document
from zkdeployment.documents.file_names import document_file_name
from zkdeployment.documents.intents.release import RELEASE, ServiceRelease, release_document
from zkdeployment.documents.intents.values import RELEASED, Approval
from zkdeployment.errors import NotFoundError, RefusedError
from zkdeployment.intents.approvals import ReleaseSnapshot
from zkdeployment.model.commits import FileChanges
from zkdeployment.model.listing import listing
from zkdeployment.planning.review import review
from zkdeployment.planning.targets.content import service_content
from zkdeployment.ports.commits import CommitOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from zkdeployment.acts.audited import ActAudit
    from zkdeployment.model.commits import Author, BranchSnapshot, CommitOutcome
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.planning.review import Review
    from zkdeployment.ports.approvals import ApprovalSigner
    from zkdeployment.ports.commits import TreeCommits

#: The most services that a message names.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOrder:
    """The request to release left services at these ``paths``: by whom, and why.

    ``left`` are all services that left governance. ``permit`` raises an error if the author may not act on a path.
    ``contents`` are the digests of the contents that the author has seen, if the author named any.
    ``audit`` records the act.
    """

    paths: Sequence[str]
    left: Sequence[LeftService]
    author: Author
    reason: str
    permit: Callable[[str], None] = lambda _path: None
    contents: Collection[str] = ()
    audit: ActAudit | None = None


def release_services(
    commits: TreeCommits,
    order: ReleaseOrder,
    *,
    sign: ApprovalSigner | None = None,
    dry_run: bool = False,
) -> CommitOutcome:
    """Write the releases of left services, with their contents at the tip, into documents of their own.

    Releases that have taken effect are removed. ``sign`` signs the approval of a release. Raises ``NotFoundError``
    for a path that is not among the left services, ``RefusedError`` if a release would not count, and what
    ``TreeCommits.commit`` raises.
    """
    for path in order.paths:
        order.permit(path)
    released = tuple(_named(order))

    def compute(branch: BranchSnapshot) -> FileChanges:
        reviewed = review(branch.files)
        files = _without_settled(branch.files, reviewed, order.left)
        for one in released:
            release = _release(one, reviewed, order, sign)
            _require_counted(commits, branch, reviewed, release)
            former = reviewed.documents.of(RELEASE).get(_subject(one))
            if former is None or not _is_same(former, release):
                name = document_file_name(RELEASE.name, _subject(one))
                files[name] = render_document(release_document(release)).encode()
        return FileChanges(files, f"Release {listing([str(one) for one in released], _NAMED)}: {order.reason}")

    check = partial(check_change, basis=ChangeBasis(left=order.left))
    outcome = commits.commit(CommitOrder(author=order.author, compute=compute, check=check), dry_run=dry_run)
    if order.audit is not None:
        order.audit.record(f"intent release {listing(list(order.paths), _NAMED)}", outcome)
    return outcome


def _subject(left: LeftService) -> tuple[str, ...]:
    return (left.path,) if left.target is None else (left.path, left.target)


def _is_same(former: ServiceRelease, release: ServiceRelease) -> bool:
    """Whether a release says the same as a former one, whoever made it, and whatever the reason."""
    is_same_content = former.approval.content == release.approval.content
    is_as_signed = (former.approval.signature is None) is (release.approval.signature is None)
    return is_same_content and is_as_signed and replace(former, approval=release.approval) == release


def _named(order: ReleaseOrder) -> Iterator[LeftService]:
    """Yield the left services at the paths of an order; raises ``NotFoundError`` for another path."""
    for path in dict.fromkeys(order.paths):
        found = [one for one in order.left if one.path == path]
        if not found:
            known = listing(sorted({one.path for one in order.left}), _NAMED) if order.left else "there are none"
            raise NotFoundError(
                f"{path} is not among the services that left the governance of an intent: expected one of them"
                f" ({known})"
            )
        yield from found


def _release(
    left: LeftService,
    reviewed: Review,
    order: ReleaseOrder,
    sign: ApprovalSigner | None,
) -> ServiceRelease:
    if left.path not in reviewed.linted.tree:
        raise RefusedError(f"{left.path} is not in the tree at the tip of the branch; nothing is to be released")
    content = service_content(left.path, left.target, reviewed.linted.tree).digest
    require_seen(left.path, content, *order.contents)
    approval = Approval(content, order.author.email, order.reason)
    release = ServiceRelease(left.path, left.target, left.former, left.revision, approval)
    if sign is None:
        return release
    return replace(release, approval=sign(release.subject, replace(approval, state=RELEASED)))


def _require_counted(
    commits: TreeCommits, branch: BranchSnapshot, reviewed: Review, release: ServiceRelease
) -> None:
    """Raise ``RefusedError`` if releases need a signature and this one does not count."""
    if commits.approvals is None:
        return
    content = service_content(release.path, release.target, reviewed.linted.tree)
    objection = commits.approvals.objection(ReleaseSnapshot(release, content), branch.tip)
    if objection is not None:
        raise RefusedError(
            f"the release of {release.path} does not count: {objection}; this fleet needs signed releases: use"
            f" 'zkdeployment intent release {release.path} --key FILE' at a terminal"
        )


def _without_settled(
    files: Sequence[SourceFile], reviewed: Review, left: Sequence[LeftService]
) -> dict[str, bytes | None]:
    """Return the files that change when releases are removed that release no left service any more."""
    changed: dict[str, bytes | None] = {}
    for (kind, _), entry in reviewed.documents.entries.items():
        if kind == RELEASE.name and not any(entry.value.names(one) for one in left) and entry.file not in changed:
            changed |= without_document(files, entry)
    return changed

"""Documents that release services which left the governance of their intent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.forms import TEXT, mapping_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.intents.documents.kinds import APPROVAL, NODE_PATH, TARGET, approval_value, parse_approval
from zkdeployment.intents.documents.values import Approval, subject_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.documents.kinds import Subject
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.publishing.left_service import LeftService

RELEASE_SCHEMA = "zkdeployment/Release/v1"


@dataclass(frozen=True, slots=True)
class ServiceRelease:
    """The order to deploy a left service with the approved content in the tree.

    A release ``is_pending`` while it collects approvals; it has no effect before all people have signed it.
    """

    path: str
    target: str | None
    former: IntentSubject
    revision: str
    approval: Approval
    is_pending: bool = False

    @property
    def subject(self) -> IntentSubject:
        """The subject in a release's signature; no intent has such a subject."""
        return "release", self.path, self.target or "", subject_text(self.former), self.revision

    def releases(self, left: LeftService, content: str) -> bool:
        """Whether this document releases a left service whose content in the tree has this digest."""
        return self.names(left) and not self.is_pending and self.approval.content == content

    def names(self, left: LeftService) -> bool:
        """Whether this is a release of a left service, with any content."""
        former = (self.path, self.target, self.former, self.revision)
        return former == (left.path, left.target, left.former, left.revision)


def release_document(release: ServiceRelease) -> dict[str, Any]:
    """Return a release in the form of its document."""
    metadata = {"path": release.path}
    if release.target is not None:
        metadata["target"] = release.target
    return {
        "schema": RELEASE_SCHEMA,
        "metadata": metadata,
        "data": {
            "former": subject_text(release.former),
            "revision": release.revision,
            "approval": approval_value(release.approval),
            **({"pending": True} if release.is_pending else {}),
        },
    }


_FORM = mapping_form(
    {
        "metadata": mapping_form({"path": NODE_PATH}, {"target": TARGET}),
        "data": mapping_form(
            {
                "former": TEXT,
                "revision": TEXT,
                "approval": APPROVAL,
            },
            {"pending": {"type": "boolean", "description": "true while the release lacks approvals, else false"}},
        ),
    },
    {"schema": {}},
)


def _parse(value: Any) -> ServiceRelease:
    metadata, data = value["metadata"], value["data"]
    return ServiceRelease(
        metadata["path"],
        metadata.get("target"),
        tuple(data["former"].split("/")),
        data["revision"],
        parse_approval(data["approval"]),
        data.get("pending", False),
    )


def _subject(value: Any) -> Subject:
    return tuple(_names(value["metadata"]))


def _names(metadata: Mapping[str, str]) -> Iterator[str]:
    yield metadata["path"]
    if "target" in metadata:
        yield metadata["target"]


RELEASE: DocumentKind[ServiceRelease] = DocumentKind(
    name="release",
    schema=RELEASE_SCHEMA,
    form=_FORM,
    parse=_parse,
    subject=_subject,
    place=("metadata", "path"),
)

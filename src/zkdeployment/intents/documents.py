"""Intents: services that are deployed together, and the state of their life cycle; and releases of left services.

A deployment intent group governs subtrees of the tree for all of their targets. The network intents of a cluster
govern service nodes for one target. The forms of the documents, their parsers and their writers follow from the
records here. Decisions belong to ``intents.rules``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.records import OMITTED, Key, Record
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import (
    NODE_PATH,
    TEXT,
    Fault,
    choice_form,
    form_faults,
    list_form,
    name_form,
    record_form,
    text_form,
)
from zkdeployment.documents.kinds import DocumentKind, DocumentRecord, document_kind

if TYPE_CHECKING:
    from zkdeployment.base.publication import LeftService

#: The names that identify a group (project, composite app, version, name) or a cluster (provider, name).
IntentSubject: TypeAlias = tuple[str, ...]


def subject_text(subject: IntentSubject) -> str:
    """Return a subject in the form of commands and messages: ``p1/store/v1/shop``."""
    return "/".join(subject)


_NAME = name_form(NameKind.PLAIN)
_TARGET = name_form(NameKind.TARGET)
_WRITTEN = "as 'zkdeployment intent approve' writes it"

#: The pattern of the digest of a content.
DIGEST = "^sha256:[0-9a-f]{64}$"

_INSTANCE = {
    "type": "integer",
    "minimum": 1,
    "maximum": 2**53 - 1,
    "description": f"the number of the instance, {_WRITTEN}",
}
_PATHS = list_form(NODE_PATH, "a list of at least one path, as in [/p1/shop/front]", minItems=1)


def _parts(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": _NAME,
        "additionalProperties": _PATHS,
        "properties": {},
        "description": description,
    }


class IntentState(Enum):
    """The state of a group or a cluster. Only groups are Approved and Instantiated, only clusters are Applied."""

    CREATED = "Created"
    APPROVED = "Approved"
    INSTANTIATED = "Instantiated"
    APPLIED = "Applied"
    TERMINATED = "Terminated"

    @property
    def is_active(self) -> bool:
        """Whether the governed service nodes are deployed in this state."""
        return self in {IntentState.INSTANTIATED, IntentState.APPLIED}


class UpdateRule(Enum):
    """The rule for changes of an instantiated group: after its termination, or in place with an approval."""

    TERMINATE = "terminate"
    APPROVE = "approve"


class FleetStop(Enum):
    """The extent of a stop after a failed script of a group: the steps of the group, or the fleet."""

    GROUP = "group"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class FurtherApproval(Record):
    """The approval of the same content and instance by another person; ``signature`` covers the same."""

    by: Annotated[str, Key(form=TEXT)]
    signature: Annotated[str, Key(form=TEXT)]
    reason: Annotated[str, Key(omit=True, form=TEXT)] = ""


_FURTHER = list_form(
    record_form(FurtherApproval),
    f"a list of further approvals, {_WRITTEN}",
    minItems=1,
    maxItems=99,
)

#: The state in the approval of a release.
RELEASED = "Released"


@dataclass(frozen=True, slots=True)
class Approval(Record):
    """The approval of one content, given by its digest.

    ``signature`` covers the subject, the content, the ``state`` and the number of the ``instance``. The state
    names the approved step: a new instance (Approved), the running instance (Instantiated), or the end of
    governance (Released). A signed approval begins or changes only one instance: the number grows with each
    approval, and is at least the time of the approval. State and number are empty in approvals without a
    signature. ``also`` are the approvals of other people.
    """

    content: Annotated[str, Key(form=text_form(DIGEST, f"the digest of a content, {_WRITTEN}"))]
    by: Annotated[str, Key(form=TEXT)]
    reason: Annotated[str, Key(omit=True, form=TEXT)] = ""
    signature: Annotated[str | None, Key(omit=True, form=TEXT)] = None
    state: Annotated[
        str, Key(omit=True, form=choice_form(IntentState.APPROVED, IntentState.INSTANTIATED, RELEASED))
    ] = ""
    instance: Annotated[int, Key(omit=True, form=_INSTANCE)] = 0
    also: Annotated[tuple[FurtherApproval, ...], Key(omit=True, form=_FURTHER)] = ()


_GROUP_STATES = (IntentState.CREATED, IntentState.APPROVED, IntentState.INSTANTIATED, IntentState.TERMINATED)
_CLUSTER_STATES = (IntentState.CREATED, IntentState.APPLIED, IntentState.TERMINATED)


@dataclass(frozen=True, slots=True)
class DeploymentIntentGroup(DocumentRecord):
    """An instantiation of a composite application: its apps, each with the paths of its subtrees."""

    SCHEMA: ClassVar[str] = "zkdeployment/DeploymentIntentGroup/v1"
    METADATA: ClassVar[tuple[str, ...]] = ("project", "composite-app", "version", "name")

    project: Annotated[str, Key(form=_NAME)]
    composite_app: Annotated[str, Key("composite-app", form=_NAME)]
    version: Annotated[str, Key(form=_NAME)]
    name: Annotated[str, Key(form=_NAME)]
    composite_profile: Annotated[str, Key("composite-profile", form=_NAME)]
    apps: Annotated[Mapping[str, tuple[str, ...]], Key(form=_parts("a mapping of apps to lists of paths"))]
    state: Annotated[IntentState, Key(form=choice_form(*_GROUP_STATES))] = IntentState.CREATED
    update: Annotated[UpdateRule, OMITTED] = UpdateRule.TERMINATE
    fleet_stop: Annotated[FleetStop, Key("fleet-stop", omit=True)] = FleetStop.FLEET
    approval: Annotated[Approval | None, OMITTED] = None

    @property
    def subject(self) -> IntentSubject:
        """The names that identify the group."""
        return self.project, self.composite_app, self.version, self.name

    @property
    def target(self) -> None:
        """No target: the group governs its subtrees for all targets."""

    @property
    def description(self) -> dict[str, object]:
        """The wanted state of the group, besides the content of its subtrees."""
        apps = {app: sorted(paths) for app, paths in self.apps.items()}
        return {"apps": apps, "composite-profile": self.composite_profile}


@dataclass(frozen=True, slots=True)
class ClusterIntents(DocumentRecord):
    """The network intents of a cluster, each with the paths of its subtrees; ``name`` is the only target."""

    SCHEMA: ClassVar[str] = "zkdeployment/Cluster/v1"
    METADATA: ClassVar[tuple[str, ...]] = ("provider", "name")

    provider: Annotated[str, Key(form=_NAME)]
    name: Annotated[str, Key(form=_TARGET)]
    apps: Annotated[
        Mapping[str, tuple[str, ...]],
        Key("network-intents", form=_parts("a mapping of network intents to lists of paths")),
    ]
    state: Annotated[IntentState, Key(form=choice_form(*_CLUSTER_STATES))] = IntentState.CREATED

    @property
    def subject(self) -> IntentSubject:
        """The names that identify the cluster."""
        return self.provider, self.name

    @property
    def target(self) -> str:
        """The target for which the cluster governs its subtrees."""
        return self.name

    @property
    def approval(self) -> None:
        """No approval: clusters are applied without one."""

    @property
    def update(self) -> UpdateRule:
        """Applied network intents change only after their termination."""
        return UpdateRule.TERMINATE

    @property
    def fleet_stop(self) -> FleetStop:
        """A failure of network intents stops the fleet."""
        return FleetStop.FLEET

    @property
    def description(self) -> dict[str, object]:
        """The wanted state of the cluster, besides the content of its subtrees."""
        return {"network-intents": {name: sorted(paths) for name, paths in self.apps.items()}}


#: A document that governs service nodes.
Intent: TypeAlias = DeploymentIntentGroup | ClusterIntents


def parse_subject(text: str) -> IntentSubject:
    """Return the subject that ``subject_text`` wrote; raises ``ConfigurationError`` for other text."""
    parts = tuple(text.split("/"))
    kinds = _SUBJECT_NAMES.get(len(parts))
    if kinds is None or not all(parts):
        raise ConfigurationError(
            f"SUBJECT is {text!r}: expected PROJECT/APP/VERSION/NAME, as in p1/store/v1/shop, or PROVIDER/CLUSTER,"
            " as in ams/web-server"
        )
    for problem in filter(None, map(name_problem, kinds, parts)):
        raise ConfigurationError(f"SUBJECT: {problem}")
    return parts


#: The kinds of the names in the subject of a group, and of a cluster, by their number.
_SUBJECT_NAMES = {4: (NameKind.PLAIN,) * 4, 2: (NameKind.PLAIN, NameKind.TARGET)}


def intent_paths(intent: Intent) -> tuple[str, ...]:
    """Return the paths that an intent governs, sorted."""
    return tuple(sorted({path for paths in intent.apps.values() for path in paths}))


def _names(subject: str) -> IntentSubject:
    return tuple(subject.split("/"))


_PENDING = {"type": "boolean", "description": "true while the release lacks approvals, else false"}


@dataclass(frozen=True, slots=True)
class ServiceRelease(DocumentRecord):
    """The order to deploy a left service with the approved content in the tree.

    A release ``is_pending`` while it collects approvals; it has no effect before all people have signed it.
    """

    SCHEMA: ClassVar[str] = "zkdeployment/Release/v1"
    METADATA: ClassVar[tuple[str, ...]] = ("path", "target")

    path: Annotated[str, Key(form=NODE_PATH)]
    former: Annotated[IntentSubject, Key(read=_names, write=subject_text, form=TEXT)]
    revision: Annotated[str, Key(form=TEXT)]
    approval: Approval
    target: Annotated[str | None, Key(omit=True, form=_TARGET)] = None
    is_pending: Annotated[bool, Key("pending", omit=True, form=_PENDING)] = False

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


def _group_faults(value: Any) -> Iterator[Fault]:
    """Return a fault for a group that needs an approval and has none."""
    state = value["data"]["state"]
    if state != IntentState.CREATED.value and "approval" not in value["data"]:
        subject = subject_text(GROUP.subject(value))
        yield (
            ("data", "state"),
            f"{state} needs the key approval; expected Created, and 'zkdeployment intent approve {subject}'",
        )
    yield from _path_faults(value, "apps")


def _path_faults(value: Any, key: str) -> Iterator[Fault]:
    """Return a fault for a document without paths, and for each path that is given twice or below another one."""
    if not value["data"][key]:
        yield ("data", key), "expected at least one name with a path, found none: nothing would be governed"
    given: dict[str, str] = {}
    entries = [
        (name, number, path) for name, paths in value["data"][key].items() for number, path in enumerate(paths)
    ]
    for name, number, path in entries:
        above = next((other for other in given if f"{path}/".startswith(f"{other}/")), None)
        below = next((other for other in given if f"{other}/".startswith(f"{path}/")), None)
        other = above or below
        if other is not None:
            yield ("data", key, name, number), f"{path} and {other} of {given[other]} overlap; keep one of them"
        given.setdefault(path, name)


GROUP: DocumentKind[DeploymentIntentGroup] = document_kind(
    DeploymentIntentGroup,
    "intent",
    faults=_group_faults,
    telltale_keys=("composite-app", "composite-profile"),
)

CLUSTER: DocumentKind[ClusterIntents] = document_kind(
    ClusterIntents,
    "cluster",
    faults=lambda value: _path_faults(value, "network-intents"),
    telltale_keys=("network-intents",),
)

RELEASE: DocumentKind[ServiceRelease] = document_kind(ServiceRelease, "release", place=("metadata", "path"))

DOCUMENT_KINDS: tuple[DocumentKind[Any], ...] = (GROUP, CLUSTER, RELEASE)


def intent_of_document(document: Mapping[str, Any]) -> Intent:
    """Return the group or the cluster of a document; raises ``ValueError`` if its form is not valid."""
    kind: DocumentKind[Any] = CLUSTER if document.get("schema") == CLUSTER.schema else GROUP
    for _, message in form_faults(document, kind.form):
        raise ValueError(message)
    intent: Intent = kind.parse(document)
    return intent

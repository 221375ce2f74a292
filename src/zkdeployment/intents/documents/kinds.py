"""Documents of deployment intent groups, of clusters with network intents, and of releases of left services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.base.names import NameKind
from zkdeployment.documents.forms import (
    NODE_PATH,
    TEXT,
    Fault,
    choice_form,
    document_form,
    form_faults,
    list_form,
    mapping_form,
    name_form,
    text_form,
)
from zkdeployment.documents.kinds import DocumentKind, Subject
from zkdeployment.intents.documents.values import (
    RELEASED,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    FleetStop,
    IntentState,
    UpdateRule,
    subject_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.publication import LeftService
    from zkdeployment.intents.documents.values import Intent, IntentSubject


GROUP_SCHEMA = "zkdeployment/DeploymentIntentGroup/v1"
CLUSTER_SCHEMA = "zkdeployment/Cluster/v1"

TARGET = name_form(NameKind.TARGET)

_NAME = name_form(NameKind.PLAIN)

DIGEST = text_form(r"^sha256:[0-9a-f]{64}$", "the digest of a content, as 'zkdeployment intent approve' writes it")

APPROVAL: dict[str, Any] = mapping_form(
    {"content": DIGEST, "by": TEXT},
    {
        "reason": TEXT,
        "signature": TEXT,
        "state": choice_form(IntentState.APPROVED, IntentState.INSTANTIATED, RELEASED),
        "instance": {
            "type": "integer",
            "minimum": 1,
            "maximum": 2**53 - 1,
            "description": "the number of the instance, as 'zkdeployment intent approve' writes it",
        },
        "also": list_form(
            mapping_form({"by": TEXT, "signature": TEXT}, {"reason": TEXT}),
            "a list of further approvals, as 'zkdeployment intent approve' writes it",
            minItems=1,
            maxItems=99,
        ),
    },
)

_PATHS = list_form(NODE_PATH, "a list of at least one path, as in [/p1/shop/front]", minItems=1)


def _parts(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": _NAME,
        "additionalProperties": _PATHS,
        "properties": {},
        "description": description,
    }


#: The keys of the names of a group and of a cluster in the metadata of a document, in the order of the subject.
GROUP_KEYS = ("project", "composite-app", "version", "name")
CLUSTER_KEYS = ("provider", "name")

_GROUP_FORM = document_form(
    dict.fromkeys(GROUP_KEYS, _NAME),
    {
        "composite-profile": _NAME,
        "apps": _parts("a mapping of apps to lists of paths"),
        "state": choice_form(
            IntentState.CREATED, IntentState.APPROVED, IntentState.INSTANTIATED, IntentState.TERMINATED
        ),
    },
    {"update": choice_form(*UpdateRule), "fleet-stop": choice_form(*FleetStop), "approval": APPROVAL},
)

_CLUSTER_FORM = document_form(
    {"provider": _NAME, "name": TARGET},
    {
        "network-intents": _parts("a mapping of network intents to lists of paths"),
        "state": choice_form(IntentState.CREATED, IntentState.APPLIED, IntentState.TERMINATED),
    },
)


def intent_document(intent: Intent) -> dict[str, Any]:
    """Return a group or a cluster in the form of its document."""
    apps = {name: list(paths) for name, paths in intent.apps.items()}
    if isinstance(intent, ClusterIntents):
        return {
            "schema": CLUSTER_SCHEMA,
            "metadata": dict(zip(CLUSTER_KEYS, intent.subject, strict=True)),
            "data": {"network-intents": apps, "state": intent.state.value},
        }
    data: dict[str, Any] = {
        "composite-profile": intent.composite_profile,
        "apps": apps,
        "state": intent.state.value,
    }
    if intent.update is not UpdateRule.TERMINATE:
        data["update"] = intent.update.value
    if intent.fleet_stop is not FleetStop.FLEET:
        data["fleet-stop"] = intent.fleet_stop.value
    if intent.approval is not None:
        data["approval"] = intent.approval.to_json()
    metadata = dict(zip(GROUP_KEYS, intent.subject, strict=True))
    return {"schema": GROUP_SCHEMA, "metadata": metadata, "data": data}


def _paths(parts: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(paths) for name, paths in parts.items()}


def _parse_group(value: Any) -> DeploymentIntentGroup:
    data = value["data"]
    project, composite_app, version, name = _group_subject(value)
    return DeploymentIntentGroup(
        project,
        composite_app,
        version,
        name,
        composite_profile=data["composite-profile"],
        apps=_paths(data["apps"]),
        state=IntentState(data["state"]),
        update=UpdateRule(data.get("update", UpdateRule.TERMINATE.value)),
        approval=Approval.from_json(data["approval"]) if "approval" in data else None,
        fleet_stop=FleetStop(data.get("fleet-stop", FleetStop.FLEET.value)),
    )


def _parse_cluster(value: Any) -> ClusterIntents:
    data = value["data"]
    provider, name = _cluster_subject(value)
    return ClusterIntents(provider, name, _paths(data["network-intents"]), IntentState(data["state"]))


def _group_faults(value: Any) -> Iterator[Fault]:
    """Return a fault for a group that needs an approval and has none."""
    state = value["data"]["state"]
    if state != IntentState.CREATED.value and "approval" not in value["data"]:
        subject = subject_text(_group_subject(value))
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


def _group_subject(value: Any) -> Subject:
    return tuple(value["metadata"][key] for key in GROUP_KEYS)


def _cluster_subject(value: Any) -> Subject:
    return tuple(value["metadata"][key] for key in CLUSTER_KEYS)


GROUP: DocumentKind[DeploymentIntentGroup] = DocumentKind(
    name="intent",
    schema=GROUP_SCHEMA,
    form=_GROUP_FORM,
    parse=_parse_group,
    subject=_group_subject,
    faults=_group_faults,
    telltale_keys=("composite-app", "composite-profile"),
)

CLUSTER: DocumentKind[ClusterIntents] = DocumentKind(
    name="cluster",
    schema=CLUSTER_SCHEMA,
    form=_CLUSTER_FORM,
    parse=_parse_cluster,
    subject=_cluster_subject,
    faults=lambda value: _path_faults(value, "network-intents"),
    telltale_keys=("network-intents",),
)


def intent_of_document(document: Mapping[str, Any]) -> Intent:
    """Return the group or the cluster of a document; raises ``ValueError`` if its form is not valid."""
    kind: DocumentKind[Any] = CLUSTER if document.get("schema") == CLUSTER_SCHEMA else GROUP
    for _, message in form_faults(document, kind.form):
        raise ValueError(message)
    intent: Intent = kind.parse(document)
    return intent


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
    data = {
        "former": subject_text(release.former),
        "revision": release.revision,
        "approval": release.approval.to_json(),
        **({"pending": True} if release.is_pending else {}),
    }
    return {"schema": RELEASE_SCHEMA, "metadata": metadata, "data": data}


_PENDING = {"type": "boolean", "description": "true while the release lacks approvals, else false"}

_RELEASE_FORM = mapping_form(
    {
        "metadata": mapping_form({"path": NODE_PATH}, {"target": TARGET}),
        "data": mapping_form({"former": TEXT, "revision": TEXT, "approval": APPROVAL}, {"pending": _PENDING}),
    },
    {"schema": {}},
)


def _parse_release(value: Any) -> ServiceRelease:
    metadata, data = value["metadata"], value["data"]
    return ServiceRelease(
        metadata["path"],
        metadata.get("target"),
        tuple(data["former"].split("/")),
        data["revision"],
        Approval.from_json(data["approval"]),
        data.get("pending", False),
    )


RELEASE: DocumentKind[ServiceRelease] = DocumentKind(
    name="release",
    schema=RELEASE_SCHEMA,
    form=_RELEASE_FORM,
    parse=_parse_release,
    subject=lambda value: tuple(value["metadata"][key] for key in ("path", "target") if key in value["metadata"]),
    place=("metadata", "path"),
)

DOCUMENT_KINDS: tuple[DocumentKind[Any], ...] = (GROUP, CLUSTER, RELEASE)

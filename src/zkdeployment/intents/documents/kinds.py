"""Documents of deployment intent groups, of clusters with network intents, and of releases of left services."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.base.names import NameKind
from zkdeployment.documents.forms import TEXT, Fault, form_faults, mapping_form, name_form
from zkdeployment.documents.kinds import DocumentKind, Subject
from zkdeployment.intents.documents.values import (
    RELEASED,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    FleetStop,
    FurtherApproval,
    IntentState,
    UpdateRule,
    subject_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.intents.documents.values import Intent, IntentSubject
    from zkdeployment.publishing.left_service import LeftService


GROUP_SCHEMA = "zkdeployment/DeploymentIntentGroup/v1"
CLUSTER_SCHEMA = "zkdeployment/Cluster/v1"

TARGET = name_form(NameKind.TARGET)

_NAME = name_form(NameKind.PLAIN)

NODE_PATH: dict[str, Any] = {
    "type": "string",
    "pattern": r"^(/[^/\s]+)+$",
    "description": "the path of a node, as in /p1/shop/front",
}

DIGEST: dict[str, Any] = {
    "type": "string",
    "pattern": r"^sha256:[0-9a-f]{64}$",
    "description": "the digest of a content, as 'zkdeployment intent approve' writes it",
}

APPROVAL: dict[str, Any] = mapping_form(
    {"content": DIGEST, "by": TEXT},
    {
        "reason": TEXT,
        "signature": TEXT,
        "state": {
            "enum": [IntentState.APPROVED.value, IntentState.INSTANTIATED.value, RELEASED],
            "description": f"one of: {IntentState.APPROVED.value}, {IntentState.INSTANTIATED.value}, {RELEASED}",
        },
        "instance": {
            "type": "integer",
            "minimum": 1,
            "maximum": 2**53 - 1,
            "description": "the number of the instance, as 'zkdeployment intent approve' writes it",
        },
        "also": {
            "type": "array",
            "minItems": 1,
            "maxItems": 99,
            "items": mapping_form({"by": TEXT, "signature": TEXT}, {"reason": TEXT}),
            "description": "a list of further approvals, as 'zkdeployment intent approve' writes it",
        },
    },
)

_PATHS = {
    "type": "array",
    "minItems": 1,
    "items": NODE_PATH,
    "description": "a list of at least one path, as in [/p1/shop/front]",
}


def _parts(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": _NAME,
        "additionalProperties": _PATHS,
        "properties": {},
        "description": description,
    }


def _state(*states: IntentState) -> dict[str, Any]:
    names = [state.value for state in states]
    return {"enum": names, "description": f"one of: {', '.join(names)}"}


_GROUP_FORM = mapping_form(
    {
        "metadata": mapping_form({"project": _NAME, "composite-app": _NAME, "version": _NAME, "name": _NAME}, {}),
        "data": mapping_form(
            {
                "composite-profile": _NAME,
                "apps": _parts("a mapping of apps to lists of paths"),
                "state": _state(
                    IntentState.CREATED, IntentState.APPROVED, IntentState.INSTANTIATED, IntentState.TERMINATED
                ),
            },
            {
                "update": {
                    "enum": [rule.value for rule in UpdateRule],
                    "description": f"one of: {', '.join(rule.value for rule in UpdateRule)}",
                },
                "fleet-stop": {
                    "enum": [rule.value for rule in FleetStop],
                    "description": f"one of: {', '.join(rule.value for rule in FleetStop)}",
                },
                "approval": APPROVAL,
            },
        ),
    },
    {"schema": {}},
)

_CLUSTER_FORM = mapping_form(
    {
        "metadata": mapping_form({"provider": _NAME, "name": TARGET}, {}),
        "data": mapping_form(
            {
                "network-intents": _parts("a mapping of network intents to lists of paths"),
                "state": _state(IntentState.CREATED, IntentState.APPLIED, IntentState.TERMINATED),
            },
            {},
        ),
    },
    {"schema": {}},
)


def intent_document(intent: Intent) -> dict[str, Any]:
    """Return a group or a cluster in the form of its document."""
    if isinstance(intent, ClusterIntents):
        return {
            "schema": CLUSTER_SCHEMA,
            "metadata": {"provider": intent.provider, "name": intent.name},
            "data": {"network-intents": _listed(intent), "state": intent.state.value},
        }
    project, composite_app, version, name = intent.subject
    data: dict[str, Any] = {
        "composite-profile": intent.composite_profile,
        "apps": _listed(intent),
        "state": intent.state.value,
    }
    if intent.update is not UpdateRule.TERMINATE:
        data["update"] = intent.update.value
    if intent.fleet_stop is not FleetStop.FLEET:
        data["fleet-stop"] = intent.fleet_stop.value
    if intent.approval is not None:
        data["approval"] = approval_value(intent.approval)
    return {
        "schema": GROUP_SCHEMA,
        "metadata": {"project": project, "composite-app": composite_app, "version": version, "name": name},
        "data": data,
    }


def approval_value(approval: Approval) -> dict[str, Any]:
    """Return an approval as the value of the key ``approval``."""
    further = [{key: each for key, each in asdict(one).items() if each} for one in approval.also]
    value = {**asdict(approval), "also": further}
    return {key: each for key, each in value.items() if each or key in {"content", "by"}}


def parse_approval(value: Mapping[str, Any]) -> Approval:
    """Return the approval that ``approval_value`` wrote."""
    return Approval(**{**value, "also": tuple(FurtherApproval(**one) for one in value.get("also", ()))})


def _listed(intent: Intent) -> dict[str, list[str]]:
    return {name: list(paths) for name, paths in intent.apps.items()}


def _paths(parts: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(paths) for name, paths in parts.items()}


def _parse_group(value: Any) -> DeploymentIntentGroup:
    metadata, data = value["metadata"], value["data"]
    return DeploymentIntentGroup(
        project=metadata["project"],
        composite_app=metadata["composite-app"],
        version=metadata["version"],
        name=metadata["name"],
        composite_profile=data["composite-profile"],
        apps=_paths(data["apps"]),
        state=IntentState(data["state"]),
        update=UpdateRule(data.get("update", UpdateRule.TERMINATE.value)),
        approval=parse_approval(data["approval"]) if "approval" in data else None,
        fleet_stop=FleetStop(data.get("fleet-stop", FleetStop.FLEET.value)),
    )


def _parse_cluster(value: Any) -> ClusterIntents:
    metadata, data = value["metadata"], value["data"]
    return ClusterIntents(
        metadata["provider"], metadata["name"], _paths(data["network-intents"]), IntentState(data["state"])
    )


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


def _cluster_faults(value: Any) -> Iterator[Fault]:
    return _path_faults(value, "network-intents")


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


def _group_subject(value: Any) -> tuple[str, ...]:
    metadata = value["metadata"]
    return metadata["project"], metadata["composite-app"], metadata["version"], metadata["name"]


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
    subject=lambda value: (value["metadata"]["provider"], value["metadata"]["name"]),
    faults=_cluster_faults,
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


_RELEASE_FORM = mapping_form(
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


def _parse_release(value: Any) -> ServiceRelease:
    metadata, data = value["metadata"], value["data"]
    return ServiceRelease(
        metadata["path"],
        metadata.get("target"),
        tuple(data["former"].split("/")),
        data["revision"],
        parse_approval(data["approval"]),
        data.get("pending", False),
    )


def _release_subject(value: Any) -> Subject:
    return tuple(_release_names(value["metadata"]))


def _release_names(metadata: Mapping[str, str]) -> Iterator[str]:
    yield metadata["path"]
    if "target" in metadata:
        yield metadata["target"]


RELEASE: DocumentKind[ServiceRelease] = DocumentKind(
    name="release",
    schema=RELEASE_SCHEMA,
    form=_RELEASE_FORM,
    parse=_parse_release,
    subject=_release_subject,
    place=("metadata", "path"),
)

"""Documents of intents, acts on them, and their status, as requests and responses.

The documents are those of the branch, and requests are checked by the forms of these.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from zkdeployment.base.publication import LeftService
from zkdeployment.documents.forms import form_faults, json_schema, mapping_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.intents.documents.kinds import CLUSTER, GROUP
from zkdeployment.intents.documents.values import Approval, IntentState
from zkdeployment.intents.rules.approvals import ApprovalCount
from zkdeployment.intents.rules.instances import InstanceHistory
from zkdeployment.service.bodies import Omittable, answer, body_of


def _form_of_requests(kind: DocumentKind[Any]) -> dict[str, Any]:
    """Return the form of documents whose names may follow from the address, and whose state from acts."""
    metadata, data = (kind.form["properties"][part] for part in ("metadata", "data"))
    stated = data | {"required": [key for key in data["required"] if key != "state"]}
    schema = {"const": kind.schema, "description": kind.schema}
    return mapping_form({"data": stated}, {"schema": schema, "metadata": metadata | {"required": []}})


def _schema_of(kind: DocumentKind[Any], text: str, **answered: Any) -> dict[str, Any]:
    """Return the JSON schema of documents, with the keys that only answers have."""
    form: dict[str, Any] = json_schema(_form_of_requests(kind))
    return form | {"properties": form["properties"] | answered, "description": text}


_APPROVALS = {"type": "array", "items": body_of(ApprovalCount).model_json_schema()}

_GROUP = _schema_of(
    GROUP,
    "A deployment intent group.\n\nResponses have ``approvals`` where rules of approvals are configured; in"
    " requests they are ignored. Names that a request omits are those of the address; acts change state and"
    " approval.",
    approvals=_APPROVALS,
)

_CLUSTER = _schema_of(
    CLUSTER,
    "A cluster with its network intents.\n\nNames that a request omits are those of the address; acts change the"
    " state.",
)


def _document_type(kind: DocumentKind[Any], schema: Mapping[str, Any]) -> Any:
    form = _form_of_requests(kind)

    def check(document: dict[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = _given(
            {key: _given(value) for key, value in document.items() if key != "approvals"}
        )
        for way, message in form_faults(given, form):
            raise ValueError(": ".join((".".join(map(str, way)), message)) if way else message)
        return given

    return Annotated[dict[str, Any], AfterValidator(check), WithJsonSchema(dict(schema))]


def _given(value: Any) -> Any:
    """Return a value without the keys that are null, which count as omitted."""
    return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else value


#: The types of documents in requests and in responses.
GROUP_DOCUMENT = _document_type(GROUP, _GROUP)
CLUSTER_DOCUMENT = _document_type(CLUSTER, _CLUSTER)

_CHANGED_KEY: Any = answer(None, text="A key of a document with both of its values.", before=Any, after=Any)

DIFFERENCE = answer(
    None,
    text=(
        "The changes since the approval of ``approved``: keys of the document, and nodes with resolved links."
        " ``content`` is the digest of the content, which a request for an approval may name. ``update`` maps"
        " nodes to all of their new properties."
    ),
    subject=str,
    approved=str | None,
    content=str,
    is_approved=bool,
    document=Mapping[str, _CHANGED_KEY],
    create=Mapping[str, dict[str, Any]],
    update=Mapping[str, dict[str, Any]],
    delete=list[str],
)

SUMMARY = answer(
    None,
    text=(
        "An intent in the last publication: its subject, its state, and its document. ``content`` is the digest of"
        " the published content, ``instance`` the id of the newest instance, ``address`` the path of the intent"
        " below ``/v2``. ``approvals`` is empty where no rules of approvals are configured."
    ),
    subject=str,
    state=IntentState,
    content=str,
    is_approved=bool,
    approval=Approval | None,
    approvals=list[ApprovalCount],
    instance=int | None,
    address=str,
    document={"anyOf": [_GROUP, _CLUSTER]},
)


class _Body(BaseModel):
    """A JSON object with these keys; a later version may add keys."""

    model_config = ConfigDict(extra="allow")


HISTORY = answer(
    None,
    text="The instances of an intent, newest first, also those of documents that were removed.",
    subject=str,
    instances=list[InstanceHistory],
)


class GvkBody(_Body):
    """The kind of a resource; ``Kind`` is ``Deployment`` or ``Provider``."""

    Group: str
    Version: str
    Kind: str


class ResourceBody(_Body):
    """A resource; ``metadata`` and ``spec`` are in the outputs detail and rsync, ``status`` is in detail."""

    GVK: GvkBody
    Name: str
    metadata: Omittable[dict[str, Any]] = None
    spec: Omittable[dict[str, Any]] = None
    status: Omittable[dict[str, Any]] = None
    rsync_status: Annotated[
        Omittable[Literal["Pending", "Applied", "Failed", "Retrying", "Terminated"]], Field(alias="rsync-status")
    ] = None
    cluster_status: Annotated[
        Omittable[Literal["Unknown", "NotPresent", "Present"]], Field(alias="cluster-status")
    ] = None


class ClusterResources(_Body):
    """The resources of an app on a cluster."""

    name: str
    resources: list[ResourceBody]


class AppResources(_Body):
    """The resources of an app by cluster."""

    app_name: Annotated[str, Field(alias="app-name")]
    clusters: list[ClusterResources]


class IntentStatusBody(_Body):
    """The status of an intent; clusters have no project, app and profile."""

    name: str
    project: Omittable[str] = None
    composite_app_name: Annotated[Omittable[str], Field(alias="composite-app-name")] = None
    composite_app_version: Annotated[Omittable[str], Field(alias="composite-app-version")] = None
    composite_profile_name: Annotated[Omittable[str], Field(alias="composite-profile-name")] = None
    state: Literal["Created", "Approved", "Instantiated", "Applied", "Terminated"]
    rsync_status: Annotated[Omittable[dict[str, int]], Field(alias="rsync-status")] = None
    cluster_status: Annotated[Omittable[dict[str, int]], Field(alias="cluster-status")] = None
    resources: Omittable[list[AppResources]] = None


INSTANCES = answer(
    None,
    text="The instances of an intent, newest first.",
    instances=list[answer(None, InstanceHistory, events=None)],  # type: ignore[misc]
)

LEFT_SERVICE = answer(None, LeftService, content=None, deployed=bool)

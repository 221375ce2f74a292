"""Documents of intents, acts on them, and their status, as requests and responses.

The documents are those of the branch; the names of their keys have hyphens.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from zkdeployment.base.publication import LeftService
from zkdeployment.intents.rules.instances import InstanceHistory
from zkdeployment.service.bodies import Omittable, answer

Paths = Annotated[list[str], Field(min_length=1)]
Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class FurtherApprovalBody(_Strict):
    """The approval of the same content by another person."""

    by: str
    signature: str
    reason: Omittable[str] = None


class ApprovalBody(_Strict):
    """The approval of one content; ``signature`` covers the subject, content, ``state`` and ``instance``."""

    content: Digest
    by: str
    reason: Omittable[str] = None
    signature: Omittable[str] = None
    state: Omittable[Literal["Approved", "Instantiated", "Released"]] = None
    instance: Omittable[int] = None
    also: Omittable[list[FurtherApprovalBody]] = None


class GroupMetadata(_Strict):
    """The names of a group; names that are left out are those of the address."""

    project: Omittable[str] = None
    composite_app: Annotated[Omittable[str], Field(alias="composite-app")] = None
    version: Omittable[str] = None
    name: Omittable[str] = None


class GroupData(_Strict):
    """The services that a group deploys; its state and its approval are changed by acts only."""

    composite_profile: Annotated[str, Field(alias="composite-profile")]
    apps: dict[str, Paths]
    state: Omittable[Literal["Created", "Approved", "Instantiated", "Terminated"]] = None
    update: Omittable[Literal["terminate", "approve"]] = None
    fleet_stop: Annotated[Omittable[Literal["group", "fleet"]], Field(alias="fleet-stop")] = None
    approval: Omittable[ApprovalBody] = None


class ApprovalCountBody(_Strict):
    """The approvals of the present content for one rule.

    ``approvers`` are those who approved, ``awaited`` the others who may; empty: all approvers may. ``expires`` is
    when the approvals stop counting, in seconds since the epoch; ``null``: never.
    """

    path: str
    needed: int
    approvers: list[str]
    missing: int
    awaited: list[str]
    expires: float | None


class GroupDocument(_Strict):
    """A deployment intent group.

    Responses have ``approvals`` where rules of approvals are configured; in requests they are ignored.
    """

    schema_: Annotated[Literal["zkdeployment/DeploymentIntentGroup/v1"], Field(alias="schema")] = (
        "zkdeployment/DeploymentIntentGroup/v1"
    )
    metadata: GroupMetadata = GroupMetadata()
    data: GroupData
    approvals: Omittable[list[ApprovalCountBody]] = None


class ClusterMetadata(_Strict):
    """The names of a cluster; names that are left out are those of the address."""

    provider: Omittable[str] = None
    name: Omittable[str] = None


class ClusterData(_Strict):
    """The network intents of a cluster; its state is changed by acts only."""

    network_intents: Annotated[dict[str, Paths], Field(alias="network-intents")]
    state: Omittable[Literal["Created", "Applied", "Terminated"]] = None


class ClusterDocument(_Strict):
    """A cluster with its network intents."""

    schema_: Annotated[Literal["zkdeployment/Cluster/v1"], Field(alias="schema")] = "zkdeployment/Cluster/v1"
    metadata: ClusterMetadata = ClusterMetadata()
    data: ClusterData


class ChangedKey(BaseModel):
    """A key of a document with both of its values."""

    model_config = ConfigDict(extra="forbid")

    before: Any
    after: Any


class IntentDifferenceBody(BaseModel):
    """The changes since the approval of ``approved``: keys of the document, and nodes with resolved links.

    ``content`` is the digest of the content, which a request for an approval may name. ``update`` maps nodes to
    all of their new properties.
    """

    model_config = ConfigDict(extra="forbid")

    subject: str
    approved: str | None
    content: str
    is_approved: bool
    document: dict[str, ChangedKey]
    create: dict[str, dict[str, Any]]
    update: dict[str, dict[str, Any]]
    delete: list[str]


class IntentSummary(BaseModel):
    """An intent in the last publication: its subject, its state, and its document.

    ``content`` is the digest of the published content, ``instance`` the id of the newest instance, ``address``
    the path of the intent below ``/v2``. ``approvals`` is empty where no rules of approvals are configured.
    """

    model_config = ConfigDict(extra="forbid")

    subject: str
    state: Literal["Created", "Approved", "Instantiated", "Applied", "Terminated"]
    content: str
    is_approved: bool
    approval: ApprovalBody | None
    approvals: list[ApprovalCountBody]
    instance: int | None
    address: str
    document: GroupDocument | ClusterDocument


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

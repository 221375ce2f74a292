"""Deployment intent groups and clusters: their documents, acts on them, their status, and releases.

The paths are ``/api/v1/intents``, ``/api/v1/releases`` and those of EMCO: ``/v2/projects/…`` for groups, and
``/v2/cluster-providers/…/clusters`` for clusters. Documents in requests are checked by the forms of the branch's.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.publication import LeftService
from zkdeployment.base.text import printable
from zkdeployment.documents.forms import form_faults, json_schema, mapping_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.intents.acts.intents import (
    IntentAdapters,
    create_intent,
    order_of,
    remove_intent,
    replace_intent,
)
from zkdeployment.intents.documents import (
    CLUSTER,
    GROUP,
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    Intent,
    IntentState,
    IntentSubject,
    intent_of_document,
    subject_text,
)
from zkdeployment.intents.feed import record_of, records_of, summaries_of
from zkdeployment.intents.rules.approvals import ApprovalCount, ApprovalRule, counted_approvals
from zkdeployment.intents.rules.instances import InstanceHistory, IntentRecord, intent_history
from zkdeployment.intents.rules.listing import ListedIntent, compare_content, listed_intents
from zkdeployment.intents.rules.resources import (
    instance_resources,
    is_terminating,
    read_query,
    require_apps,
    status_body,
)
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.intents.user_acts import (
    AdoptServices,
    ApplyIntent,
    ApproveIntent,
    InstantiateIntent,
    ReleaseServices,
    ResumeGroup,
    RollBackIntent,
    TerminateIntent,
    find_record,
    listed_intent,
    read_reports,
    rules_in_force,
)
from zkdeployment.service.access.identity import Operator, Reader
from zkdeployment.service.act import UNCHANGED, Actor, CommitReference, PlannedAct
from zkdeployment.service.act_routes import add_operation, address_field
from zkdeployment.service.api.publications import ReasonParameter, refer_to
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters
from zkdeployment.service.planner import planner_of
from zkdeployment.service.responses import ERRORS, Omittable, answer, body_of


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

SUMMARY: Any = answer(
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

LEFT_SERVICE: Any = answer(None, LeftService, content=None, deployed=bool)


def published_document(record: IntentRecord) -> dict[str, Any]:
    """Return the published document of an intent, with the state that the intent has."""
    return replace(record.intent, state=record.state).to_document()


def _counted_document(record: IntentRecord, rules: Sequence[ApprovalRule] | None) -> dict[str, Any]:
    """Return the published document of an intent; with rules of approvals, also the counts of its approvals."""
    counts = [count.to_json() for count in counted_approvals(record.snapshot, rules)]
    return published_document(record) | ({"approvals": counts} if counts else {})


def _summary(listed: ListedIntent, record: IntentRecord) -> dict[str, Any]:
    value = listed.to_json() | {"address": _address(record.intent), "document": published_document(record)}
    del value["tip_state"]
    return value


def _address(intent: Intent) -> str:
    names = [quote(name, safe="") for name in intent.subject]
    if isinstance(intent, ClusterIntents):
        return f"/v2/cluster-providers/{names[0]}/clusters/{names[1]}"
    project, composite_app, version, name = names
    above = f"/v2/projects/{project}/composite-apps/{composite_app}/{version}"
    return f"{above}/deployment-intent-groups/{name}"


def requested_intent(document: Mapping[str, Any], schema: str, names: Mapping[str, str]) -> Intent:
    """Return the intent of a request.

    ``names`` are the names in the address by their keys. Raises ``ConfigurationError`` if the names in the
    document differ. The answer to a document of an invalid form is 422.
    """
    metadata = {**names, **document.get("metadata", {})}
    for name, value in names.items():
        if metadata[name] != value:
            raise ConfigurationError(f"metadata.{name} is {metadata[name]}: expected {value}, as in the address")
    if "name" not in metadata:
        raise HTTPException(422, "metadata.name is missing: expected the name of the new intent")
    data = {"state": IntentState.CREATED.value, **document["data"]}
    try:
        return intent_of_document({"schema": schema, "metadata": metadata, "data": data})
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


def check_new_state(data: Mapping[str, Any]) -> None:
    """Answer 422 to the data of a new document that is not Created: acts change the state."""
    if data.get("state", IntentState.CREATED.value) != IntentState.CREATED.value or "approval" in data:
        raise HTTPException(
            422, "data: expected the state Created and no approval in a new document; approve it afterwards"
        )


def check_same_state(data: Mapping[str, Any], record: IntentRecord | None) -> None:
    """Raise ``RefusedError`` if a document has another state, or another approval, than the published one."""
    if record is None:
        check_new_state(data)
        return
    intent, state = record.intent, data.get("state")
    known = None if intent.approval is None else intent.approval.to_json()
    if state not in {None, intent.state.value, record.state.value} or data.get("approval") not in (None, known):
        raise RefusedError(
            f"{subject_text(intent.subject)} is {record.state.value}: the state and the approval are changed by"
            " acts; leave them out of the document"
        )


#: A name in an address.
SubjectName = Annotated[str, Path(max_length=500)]

#: Whether a new intent adopts the services that it governs.
AdoptParameter = Annotated[bool, Query(description="Whether the intent adopts its deployed services unchanged.")]

#: The response with a difference, which is text if the request accepts text.
TEXT_OR_JSON: dict[int | str, dict[str, Any]] = {
    200: {"description": "The difference.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def _status_parameters(
    output: Annotated[list[str] | None, Query(description="summary, all (the default), detail or rsync.")] = None,
    app: Annotated[list[str] | None, Query(description="Only the resources of these apps.")] = None,
    cluster: Annotated[
        list[str] | None, Query(description="Only those on these clusters: NAME, or PROVIDER+NAME with %2B.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        Query(description="Only these: names, paths of services or above, or patterns with *."),
    ] = None,
    instance: Annotated[
        list[str] | None, Query(description="The id of an instance; without a value, a list of all instances.")
    ] = None,
) -> dict[str, list[str]]:
    values = {"output": output, "app": app, "cluster": cluster, "resource": resource, "instance": instance}
    return {name: value for name, value in values.items() if value is not None}


#: The filters of a status; a malformed value is answered by 400, so they are checked by ``read_query``.
StatusParameters = Annotated[dict[str, list[str]], Depends(_status_parameters)]


def _subject_type(names: Sequence[str]) -> Any:
    """Return the type of a parameter of a route: the names of an intent in the address, as a subject."""

    def read(**given: str) -> IntentSubject:
        return tuple(given[name] for name in names)

    read.__signature__ = inspect.Signature([address_field(name, SubjectName) for name in names])  # type: ignore[attr-defined]
    return Annotated[IntentSubject, Depends(read)]


class _Kind(NamedTuple):
    """A kind of documents in the API: groups or clusters.

    ``document`` is the type of a document in requests and in answers. ``texts`` are the descriptions of the
    operations.
    """

    noun: str
    record: type[DeploymentIntentGroup | ClusterIntents]
    document: Any
    texts: Mapping[str, str]

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the names in the metadata of a document, in the order of the address."""
        return self.record.METADATA

    @property
    def names(self) -> list[str]:
        """The names of the parameters in the address."""
        return [key.replace("-", "_") for key in self.keys]

    def about(self, act: str, name: str = "{}_{}") -> dict[str, Any]:
        """Return the name and the description of an operation, as arguments of a route."""
        return {"name": name.format(act, self.noun), "description": self.texts[act]}


def _documents_router(prefix: str, kind: _Kind) -> APIRouter:
    """Return the operations on the documents of groups, or of clusters."""
    router = APIRouter(prefix=prefix, tags=["intents"], responses=ERRORS)
    _add_reads(router, kind, "/{name}")
    _add_changes(router, kind, "/{name}")
    return router


def _add_reads(router: APIRouter, kind: _Kind, one: str) -> None:
    above_type: Any = _subject_type(kind.names[:-1])
    subject_type: Any = _subject_type(kind.names)
    document_type: Any = kind.document

    @router.get("", response_model=list[document_type], **kind.about("list", "{}_{}s"))
    def list_documents(adapters: Adapters, _user: Reader, above: above_type) -> Response:
        rules = rules_in_force(adapters)
        records = (record for record in records_of(adapters.feed) if len(record.intent.subject) == len(kind.keys))
        return JSONResponse(
            [_counted_document(record, rules) for record in records if record.intent.subject[:-1] == above]
        )

    @router.get(one, response_model=document_type, **kind.about("read"))
    def read(adapters: Adapters, _user: Reader, subject: subject_type) -> Response:
        record = find_record(adapters, subject)
        return JSONResponse(_counted_document(record, rules_in_force(adapters)))

    @router.get(f"{one}/history", response_model=HISTORY, **kind.about("history", "read_{1}_{0}"))
    def read_history(adapters: ConnectedAdapters, _user: Reader, subject: subject_type) -> Response:
        intents = adapters.operator.of(ZooKeeperIntents)
        instances = intent_history(subject, intents.record(subject), intents.former(subject))
        body = {"subject": subject_text(subject), "instances": [instance.to_json() for instance in instances]}
        return JSONResponse(body)

    @router.get(
        f"{one}/status", response_model=IntentStatusBody | INSTANCES, **kind.about("status", "read_{1}_{0}")
    )
    def read_status(
        adapters: Adapters, _user: Reader, subject: subject_type, parameters: StatusParameters
    ) -> Response:
        record = find_record(adapters, subject)
        query = read_query(parameters)
        require_apps(query, record.intent)
        shown = record.instance(query.instance)
        reports = read_reports(adapters, *([] if shown is None else [shown]))
        clusters = frozenset(
            known for known in summaries_of(adapters.feed) if len(known) == len(ClusterIntents.METADATA)
        )
        return JSONResponse(status_body(record, query, replace(reports, clusters=clusters)))


def _add_changes(router: APIRouter, kind: _Kind, one: str) -> None:
    above_type: Any = _subject_type(kind.names[:-1])
    subject_type: Any = _subject_type(kind.names)
    document_type: Any = kind.document

    @router.post("", status_code=202, **kind.about("create"))
    def create(
        adapters: ConnectedAdapters,
        user: Operator,
        above: above_type,
        document: document_type,
        reason: ReasonParameter = "",
        adopt: AdoptParameter = False,  # noqa: FBT002  a parameter of the address
    ) -> CommitReference:
        check_new_state(document["data"])
        intent = requested_intent(document, kind.record.SCHEMA, dict(zip(kind.keys, above, strict=False)))
        acting, actor = IntentAdapters.of_service(adapters), Actor.of_user(adapters, user)
        if adopt:
            adoption = AdoptServices(subject=intent.subject, new=intent, reason=reason)
            return refer_to(adoption.perform(acting, actor))
        return refer_to(create_intent(acting.commits, order_of(acting, actor, intent.subject, reason), intent))

    @router.put(one, status_code=202, responses=UNCHANGED, **kind.about("replace"))
    def replace_document(
        adapters: ConnectedAdapters,
        user: Operator,
        subject: subject_type,
        document: document_type,
        response: Response,
        reason: ReasonParameter = "",
    ) -> CommitReference:
        intent = requested_intent(document, kind.record.SCHEMA, dict(zip(kind.keys, subject, strict=True)))
        check_same_state(document["data"], record_of(adapters.feed, subject))
        acting = IntentAdapters.of_service(adapters)
        order = order_of(acting, Actor.of_user(adapters, user), subject, reason)
        return refer_to(replace_intent(acting.commits, order, intent), response)

    @router.delete(one, status_code=202, **kind.about("remove"))
    def remove(
        adapters: ConnectedAdapters, user: Operator, subject: subject_type, reason: ReasonParameter = ""
    ) -> CommitReference:
        acting = IntentAdapters.of_service(adapters)
        order = order_of(acting, Actor.of_user(adapters, user), subject, reason)
        record = record_of(adapters.feed, subject)
        last = None if record is None else record.instance()
        is_busy = last is not None and is_terminating(instance_resources(last, read_reports(adapters, last)))
        return refer_to(remove_intent(acting.commits, order, is_terminating=is_busy))


groups_router = _documents_router(
    "/v2/projects/{project}/composite-apps/{composite_app}/{version}/deployment-intent-groups",
    _Kind(
        "group",
        DeploymentIntentGroup,
        _document_type(GROUP, _GROUP),
        {
            "list": "Return the published documents of all groups of a version of a composite app.",
            "create": (
                "Add a group, whose name is in its metadata; it is Created, or adopts deployed services unchanged."
            ),
            "read": "Return the published document of a group.",
            "replace": "Change what a group deploys. A change of an approved group ends the approval.",
            "remove": "Remove a group of which nothing is deployed.",
            "history": (
                "Return who approved, began, changed and ended each instance, also after the removal of the group."
            ),
            "status": (
                "Return the status of a group.\n\nRepeated values of one parameter are alternatives, different"
                " parameters combine, and the counts follow them."
            ),
        },
    ),
)

_Group: Any = _subject_type([key.replace("-", "_") for key in DeploymentIntentGroup.METADATA])

_GROUP_PATH = address_field("subject", _Group)

_ACTS: Mapping[str, type[PlannedAct[Any]]] = {
    "adopt": AdoptServices,
    "approve": ApproveIntent,
    "instantiate": InstantiateIntent,
    "terminate": TerminateIntent,
    "resume": ResumeGroup,
    "rollback": RollBackIntent,
}
for _name, _act in _ACTS.items():
    add_operation(groups_router, f"/{{name}}/{_name}", _act, _GROUP_PATH)


@groups_router.get("/{name}/diff", response_model=DIFFERENCE, responses=TEXT_OR_JSON)
def read_group_difference(request: Request, adapters: Adapters, _user: Reader, group: _Group) -> Response:
    """Return what changed in the content of a group since its last approval.

    The content is that at the tip of the branch, which an approval would cover; without a repository, it is the
    published one. A group that was never approved is compared with nothing. A request that accepts text/plain gets
    a line for each difference.
    """
    compared = compare_content(listed_intent(planner_of(request), adapters, group))
    if not request.headers.get("Accept", "").startswith("text/plain"):
        return JSONResponse(compared.to_json())
    return PlainTextResponse("".join(f"{printable(line)}\n" for line in compared.lines()))


intents_router = APIRouter(prefix="/api/v1", tags=["intents"], responses=ERRORS)


@intents_router.get("/intents", response_model=list[SUMMARY])
def list_intents(adapters: Adapters, _user: Reader) -> Response:
    """Return all groups, then all clusters, with their states and their published documents."""
    listed = listed_intents(records_of(adapters.feed), {}, rules_in_force(adapters))
    return JSONResponse([_summary(each, each.record) for each in listed if each.record is not None])


releases_router = APIRouter(prefix="/api/v1", tags=["intents"], responses=ERRORS)


@releases_router.get("/left-services", response_model=list[LEFT_SERVICE])
def list_left_services(adapters: Adapters, _user: Reader) -> Response:
    """Return the services that left the governance of their intents, and stay as published."""
    return JSONResponse([_left(one) for one in adapters.feed.left()])


def _left(service: LeftService) -> dict[str, Any]:
    value = service.to_json()
    del value["content"]
    return {**value, "deployed": not service.is_withheld}


add_operation(releases_router, "/releases", ReleaseServices)

clusters_router = _documents_router(
    "/v2/cluster-providers/{provider}/clusters",
    _Kind(
        "cluster",
        ClusterIntents,
        _document_type(CLUSTER, _CLUSTER),
        {
            "list": "Return the published documents of all clusters of a provider.",
            "create": (
                "Add a cluster, whose name is in its metadata; it is Created, or adopts deployed services"
                " unchanged."
            ),
            "read": "Return the published document of a cluster.",
            "replace": "Change the network intents of a cluster that is not applied.",
            "remove": "Remove a cluster of which nothing is deployed.",
            "history": "Return who began and ended each instance, also after the removal of the cluster.",
            "status": (
                "Return the status of a cluster, whose apps are its network intents; the filters are those of"
                " groups."
            ),
        },
    ),
)

_CLUSTER_PATH = address_field("subject", _subject_type(ClusterIntents.METADATA))

add_operation(
    clusters_router,
    "/{name}/adopt",
    AdoptServices,
    _CLUSTER_PATH,
    name="adopt_cluster",
    description="Put deployed services under a cluster whose document the branch has, without a change on hosts.",
)
add_operation(clusters_router, "/{name}/apply", ApplyIntent, _CLUSTER_PATH)
add_operation(
    clusters_router,
    "/{name}/terminate",
    TerminateIntent,
    _CLUSTER_PATH,
    name="terminate_cluster",
    description="Undeploy the network intents of an applied cluster.",
)

ROUTERS = (clusters_router, releases_router, groups_router, intents_router)

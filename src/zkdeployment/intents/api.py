"""Deployment intent groups and clusters: their documents, acts on them, their status, and releases.

The paths are ``/api/v1/intents``, ``/api/v1/releases`` and those of EMCO: ``/v2/projects/…`` for groups, and
``/v2/cluster-providers/…/clusters`` for clusters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.text import printable
from zkdeployment.intents import requests
from zkdeployment.intents.documents.kinds import approval_value, intent_document, intent_of_document
from zkdeployment.intents.documents.values import ClusterIntents, Intent, IntentState, IntentSubject, subject_text
from zkdeployment.intents.feed import record_of, records_of, summaries_of
from zkdeployment.intents.models import (
    HISTORY,
    INSTANCES,
    LEFT_SERVICE,
    ClusterDocument,
    GroupDocument,
    IntentDifferenceBody,
    IntentStatusBody,
    IntentSummary,
)
from zkdeployment.intents.requests import counted_approvals
from zkdeployment.intents.rules.approvals import ApprovalCount
from zkdeployment.intents.rules.instances import IntentRecord, intent_history
from zkdeployment.intents.rules.overview import compare_content, intent_overviews
from zkdeployment.intents.rules.resources import read_query, require_apps, status_body
from zkdeployment.intents.store.records import ZooKeeperIntents
from zkdeployment.intents.user_acts import (
    AdoptServices,
    ApplyIntent,
    ApproveIntent,
    InstantiateIntent,
    ReleaseServices,
    ResumeGroup,
    RollBackIntent,
    TerminateIntent,
)
from zkdeployment.publishing.left_service import LeftService
from zkdeployment.service.access.rights import Operator, Reader
from zkdeployment.service.act import Actor, PlannedAct
from zkdeployment.service.act_routes import add_operation, address_field
from zkdeployment.service.acts import UNCHANGED, CommitReference
from zkdeployment.service.api.commits import ReasonParameter, refer_to
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.planner import planner_of
from zkdeployment.service.users.user import User


def published_document(record: IntentRecord, counts: Sequence[ApprovalCount] = ()) -> dict[str, Any]:
    """Return the published document of an intent, with the state that the intent has.

    If rules of approvals are configured, the document also has the ``counts`` of its approvals.
    """
    document = intent_document(record.intent)
    document["data"]["state"] = record.state.value
    if counts:
        document["approvals"] = [count.to_json() for count in counts]
    return document


def intent_summary(record: IntentRecord, counts: Sequence[ApprovalCount] = ()) -> dict[str, Any]:
    """Return an intent in the form of the list of all intents."""
    intent, snapshot = record.intent, record.snapshot
    return {
        "subject": subject_text(intent.subject),
        "state": record.state.value,
        "content": snapshot.content.digest,
        "is_approved": snapshot.is_approved,
        "approval": None if intent.approval is None else approval_value(intent.approval),
        "approvals": [count.to_json() for count in counts],
        "instance": record.instances[-1].id if record.instances else None,
        "address": _address(intent),
        "document": published_document(record),
    }


def _address(intent: Intent) -> str:
    names = [quote(name, safe="") for name in intent.subject]
    if isinstance(intent, ClusterIntents):
        return f"/v2/cluster-providers/{names[0]}/clusters/{names[1]}"
    project, composite_app, version, name = names
    above = f"/v2/projects/{project}/composite-apps/{composite_app}/{version}"
    return f"{above}/deployment-intent-groups/{name}"


def requested_intent(body: GroupDocument | ClusterDocument, names: Mapping[str, str]) -> Intent:
    """Return the intent of a request, Created and without an approval.

    ``names`` are the names in the address. Raises ``ConfigurationError`` if the names in the document differ. The
    answer to a document of an invalid form is 422.
    """
    document = body.model_dump(by_alias=True, exclude_none=True, exclude={"approvals"})
    for name, value in names.items():
        found = document["metadata"].setdefault(name, value)
        if found != value:
            raise ConfigurationError(f"metadata.{name} is {found}: expected {value}, as in the address")
    if "name" not in document["metadata"]:
        raise HTTPException(422, "metadata.name is missing: expected the name of the new intent")
    document["data"]["state"] = IntentState.CREATED.value
    document["data"].pop("approval", None)
    try:
        return intent_of_document(document)
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


def check_new_state(body: GroupDocument | ClusterDocument) -> None:
    """Answer 422 to a new document that is not Created: acts change the state."""
    if body.data.state not in {None, IntentState.CREATED.value} or _approval(body) is not None:
        raise HTTPException(
            422, "data: expected the state Created and no approval in a new document; approve it afterwards"
        )


def check_same_state(body: GroupDocument | ClusterDocument, record: IntentRecord | None) -> None:
    """Raise ``RefusedError`` if a document has another state, or another approval, than the published one."""
    if record is None:
        check_new_state(body)
        return
    intent, state, approval = record.intent, body.data.state, _approval(body)
    known = None if intent.approval is None else approval_value(intent.approval)
    if state not in {None, intent.state.value, record.state.value} or approval not in (None, known):
        raise RefusedError(
            f"{subject_text(intent.subject)} is {record.state.value}: the state and the approval are changed by"
            " acts; leave them out of the document"
        )


def _approval(body: GroupDocument | ClusterDocument) -> dict[str, Any] | None:
    approval = getattr(body.data, "approval", None)
    value: dict[str, Any] | None = None if approval is None else approval.model_dump(exclude_none=True)
    return value


#: The number of names that identify a group, and of those that identify a cluster.
GROUP_NAMES = 4
CLUSTER_NAMES = 2

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


def list_documents(adapters: ServerAdapters, above: IntentSubject, length: int) -> Response:
    """Return the documents of intents whose subjects have ``length`` names and begin with ``above``."""
    records = records_of(adapters.feed)
    shown = [record for record in records if len(record.intent.subject) == length]
    return JSONResponse(
        [
            published_document(record, requests.counted_approvals(adapters, record))
            for record in shown
            if record.intent.subject[: len(above)] == above
        ]
    )


def show_document(adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the document of an intent."""
    record = requests.find_record(adapters, subject)
    return JSONResponse(published_document(record, requests.counted_approvals(adapters, record)))


def show_status(adapters: ServerAdapters, subject: IntentSubject, parameters: dict[str, list[str]]) -> Response:
    """Return the status of an intent."""
    record = requests.find_record(adapters, subject)
    query = read_query(parameters)
    require_apps(query, record.intent)
    shown = [each for each in record.instances if query.instance in {None, each.id}][-1:]
    reports = requests.read_reports(adapters, *shown)
    clusters = frozenset(known for known in summaries_of(adapters.feed) if len(known) == CLUSTER_NAMES)
    return JSONResponse(status_body(record, query, replace(reports, clusters=clusters)))


def show_difference(request: Request, adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the changes of the content of a group since its last approval, as JSON or as text."""
    compared = compare_content(requests.intent_overview(planner_of(request), adapters, subject))
    if not request.headers.get("Accept", "").startswith("text/plain"):
        return JSONResponse(compared.to_json())
    return PlainTextResponse("".join(f"{printable(line)}\n" for line in compared.lines()))


def show_history(adapters: ServerAdapters, subject: IntentSubject) -> Response:
    """Return the instances of an intent with their events."""
    intents = adapters.operator.of(ZooKeeperIntents)
    instances = intent_history(subject, intents.record(subject), intents.former(subject))
    body = {"subject": subject_text(subject), "instances": [instance.to_json() for instance in instances]}
    return JSONResponse(body)


def add_intent(
    adapters: ServerAdapters, user: User, intent: Intent, reason: str, *, adopt: bool
) -> CommitReference:
    """Add the document of an intent, which is Created, or adopts deployed services unchanged."""
    if not adopt:
        return refer_to(requests.create(adapters, user, intent, reason))
    act = AdoptServices(subject=intent.subject, new=intent, reason=reason)
    return refer_to(act.perform(adapters, Actor.of_user(adapters, user)))


def replace_document(
    adapters: ServerAdapters,
    user: User,
    document: GroupDocument | ClusterDocument,
    names: dict[str, str],
    reason: str,
    response: Response,
) -> CommitReference:
    """Change the document of the intent that ``names`` identify."""
    intent = requested_intent(document, names)
    check_same_state(document, record_of(adapters.feed, intent.subject))
    return refer_to(requests.replace_document(adapters, user, intent, reason), response)


groups_router = APIRouter(
    prefix="/v2/projects/{project}/composite-apps/{composite_app}/{version}/deployment-intent-groups",
    tags=["intents"],
    responses=ERRORS,
)

#: The keys of the names in the metadata of a document, in the order of the address.
_KEYS = ("project", "composite-app", "version", "name")


def _composite_app(project: SubjectName, composite_app: SubjectName, version: SubjectName) -> IntentSubject:
    return project, composite_app, version


def _group(
    project: SubjectName, composite_app: SubjectName, version: SubjectName, name: SubjectName
) -> IntentSubject:
    return project, composite_app, version, name


CompositeApp = Annotated[IntentSubject, Depends(_composite_app)]


@groups_router.get("", response_model=list[GroupDocument])
def list_groups(adapters: Adapters, _user: Reader, app: CompositeApp) -> Response:
    """Return the published documents of all groups of a version of a composite app."""
    return list_documents(adapters, app, GROUP_NAMES)


@groups_router.post("", status_code=202)
def create_group(
    adapters: ConnectedAdapters,
    user: Operator,
    app: CompositeApp,
    document: GroupDocument,
    reason: ReasonParameter = "",
    adopt: AdoptParameter = False,  # noqa: FBT002  a parameter of the address
) -> CommitReference:
    """Add a group, whose name is in its metadata; it is Created, or adopts deployed services unchanged."""
    check_new_state(document)
    intent = requested_intent(document, dict(zip(_KEYS, app, strict=False)))
    return add_intent(adapters, user, intent, reason, adopt=adopt)


@groups_router.get("/{name}", response_model=GroupDocument)
def read_group(adapters: Adapters, _user: Reader, group: Annotated[IntentSubject, Depends(_group)]) -> Response:
    """Return the published document of a group."""
    return show_document(adapters, group)


@groups_router.put("/{name}", status_code=202, responses=UNCHANGED)
def replace_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    document: GroupDocument,
    response: Response,
    reason: ReasonParameter = "",
) -> CommitReference:
    """Change what a group deploys. A change of an approved group ends the approval."""
    names = dict(zip(_KEYS, group, strict=True))
    return replace_document(adapters, user, document, names, reason, response)


@groups_router.delete("/{name}", status_code=202)
def remove_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    reason: ReasonParameter = "",
) -> CommitReference:
    """Remove a group of which nothing is deployed."""
    return refer_to(requests.remove(adapters, user, group, reason))


_GROUP_PATH = address_field("subject", Annotated[IntentSubject, Depends(_group)])

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


@groups_router.get("/{name}/history", response_model=HISTORY)
def read_group_history(
    adapters: ConnectedAdapters, _user: Reader, group: Annotated[IntentSubject, Depends(_group)]
) -> Response:
    """Return who approved, began, changed and ended each instance, also after the removal of the group."""
    return show_history(adapters, group)


@groups_router.get("/{name}/diff", response_model=IntentDifferenceBody, responses=TEXT_OR_JSON)
def read_group_difference(
    request: Request,
    adapters: Adapters,
    _user: Reader,
    group: Annotated[IntentSubject, Depends(_group)],
) -> Response:
    """Return what changed in the content of a group since its last approval.

    The content is that at the tip of the branch, which an approval would cover; without a repository, it is the
    published one. A group that was never approved is compared with nothing. A request that accepts text/plain gets
    a line for each difference.
    """
    return show_difference(request, adapters, group)


@groups_router.get("/{name}/status", response_model=IntentStatusBody | INSTANCES)
def read_group_status(
    adapters: Adapters,
    _user: Reader,
    group: Annotated[IntentSubject, Depends(_group)],
    parameters: StatusParameters,
) -> Response:
    """Return the status of a group.

    Repeated values of one parameter are alternatives, different parameters combine, and the counts follow them.
    """
    return show_status(adapters, group, parameters)


intents_router = APIRouter(prefix="/api/v1", tags=["intents"], responses=ERRORS)


@intents_router.get("/intents", response_model=list[IntentSummary])
def list_intents(adapters: Adapters, _user: Reader) -> Response:
    """Return all groups, then all clusters, with their states and their published documents."""
    overviews = intent_overviews(records_of(adapters.feed), {})
    records = [each.record for each in overviews if each.record is not None]
    return JSONResponse([intent_summary(record, counted_approvals(adapters, record)) for record in records])


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


clusters_router = APIRouter(prefix="/v2/cluster-providers/{provider}/clusters", tags=["intents"], responses=ERRORS)


def _cluster(provider: SubjectName, name: SubjectName) -> IntentSubject:
    return provider, name


@clusters_router.get("", response_model=list[ClusterDocument])
def list_clusters(adapters: Adapters, _user: Reader, provider: SubjectName) -> Response:
    """Return the published documents of all clusters of a provider."""
    return list_documents(adapters, (provider,), CLUSTER_NAMES)


@clusters_router.post("", status_code=202)
def create_cluster(
    adapters: ConnectedAdapters,
    user: Operator,
    provider: SubjectName,
    document: ClusterDocument,
    reason: ReasonParameter = "",
    adopt: AdoptParameter = False,  # noqa: FBT002  a parameter of the address
) -> CommitReference:
    """Add a cluster, whose name is in its metadata; it is Created, or adopts deployed services unchanged."""
    check_new_state(document)
    intent = requested_intent(document, {"provider": provider})
    return add_intent(adapters, user, intent, reason, adopt=adopt)


@clusters_router.get("/{name}", response_model=ClusterDocument)
def read_cluster(
    adapters: Adapters, _user: Reader, cluster: Annotated[IntentSubject, Depends(_cluster)]
) -> Response:
    """Return the published document of a cluster."""
    return show_document(adapters, cluster)


@clusters_router.put("/{name}", status_code=202, responses=UNCHANGED)
def replace_cluster(
    adapters: ConnectedAdapters,
    user: Operator,
    cluster: Annotated[IntentSubject, Depends(_cluster)],
    document: ClusterDocument,
    response: Response,
    reason: ReasonParameter = "",
) -> CommitReference:
    """Change the network intents of a cluster that is not applied."""
    names = dict(zip(("provider", "name"), cluster, strict=True))
    return replace_document(adapters, user, document, names, reason, response)


@clusters_router.delete("/{name}", status_code=202)
def remove_cluster(
    adapters: ConnectedAdapters,
    user: Operator,
    cluster: Annotated[IntentSubject, Depends(_cluster)],
    reason: ReasonParameter = "",
) -> CommitReference:
    """Remove a cluster of which nothing is deployed."""
    return refer_to(requests.remove(adapters, user, cluster, reason))


_CLUSTER_PATH = address_field("subject", Annotated[IntentSubject, Depends(_cluster)])

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


@clusters_router.get("/{name}/history", response_model=HISTORY)
def read_cluster_history(
    adapters: ConnectedAdapters, _user: Reader, cluster: Annotated[IntentSubject, Depends(_cluster)]
) -> Response:
    """Return who began and ended each instance, also after the removal of the cluster."""
    return show_history(adapters, cluster)


@clusters_router.get("/{name}/status", response_model=IntentStatusBody | INSTANCES)
def read_cluster_status(
    adapters: Adapters,
    _user: Reader,
    cluster: Annotated[IntentSubject, Depends(_cluster)],
    parameters: StatusParameters,
) -> Response:
    """Return the status of a cluster, whose apps are its network intents; the filters are those of groups."""
    return show_status(adapters, cluster, parameters)

"""Deployment intent groups, ``/api/v1/intents`` and ``/api/v1/releases``."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from zkdeployment.intents import requests
from zkdeployment.intents.api.answers import (
    GROUP_NAMES,
    TEXT_OR_JSON,
    UNCHANGED,
    AdoptParameter,
    ReasonParameter,
    StatusParameters,
    SubjectName,
    change_state,
    check_new_state,
    intent_summary,
    list_documents,
    refer_to,
    replace_document,
    requested_intent,
    show_difference,
    show_document,
    show_history,
    show_status,
)
from zkdeployment.intents.documents.values import IntentSubject
from zkdeployment.intents.feed import records_of
from zkdeployment.intents.models import (
    ApproveRequest,
    CommitReference,
    GroupDocument,
    InstancesBody,
    IntentDifferenceBody,
    IntentHistoryBody,
    IntentRollbackRequest,
    IntentStatusBody,
    IntentSummary,
    LeftServiceBody,
    ServiceReleaseRequest,
)
from zkdeployment.intents.requests import counted_approvals
from zkdeployment.intents.rules.life_cycle import IntentAct
from zkdeployment.intents.rules.overview import intent_overviews
from zkdeployment.service.access.rights import Operator, Reader
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.models.acts import ActRequest, ReasonedRequest, RecordedAct

router = APIRouter(
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


@router.get("", response_model=list[GroupDocument])
def list_groups(adapters: Adapters, _user: Reader, app: CompositeApp) -> Response:
    """Return the published documents of all groups of a version of a composite app."""
    return list_documents(adapters, app, GROUP_NAMES)


@router.post("", status_code=202)
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
    if adopt:
        return refer_to(requests.adopt(adapters, user, intent.subject, reason, intent=intent))
    return refer_to(requests.create(adapters, user, intent, reason))


@router.get("/{name}", response_model=GroupDocument)
def read_group(adapters: Adapters, _user: Reader, group: Annotated[IntentSubject, Depends(_group)]) -> Response:
    """Return the published document of a group."""
    return show_document(adapters, group)


@router.put("/{name}", status_code=202, responses=UNCHANGED)
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


@router.delete("/{name}", status_code=202)
def remove_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    reason: ReasonParameter = "",
) -> CommitReference:
    """Remove a group of which nothing is deployed."""
    return refer_to(requests.remove(adapters, user, group, reason))


@router.post("/{name}/adopt", status_code=202)
def adopt_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    request: ReasonedRequest | None = None,
) -> CommitReference:
    """Put deployed services under a group whose document the branch has, without a change on hosts."""
    reason = "" if request is None else request.reason
    return refer_to(requests.adopt(adapters, user, group, reason))


@router.post("/{name}/approve", status_code=202, responses=UNCHANGED)
def approve_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    response: Response,
    request: ApproveRequest | None = None,
) -> CommitReference:
    """Approve the content that a group has at the tip of the branch; the request may have no body."""
    wanted = request or ApproveRequest()
    outcome = requests.act_on_intent(
        adapters, user, group, IntentAct.APPROVE, wanted.reason, content=wanted.content
    )
    return refer_to(outcome, response)


@router.post("/{name}/instantiate", status_code=202)
def instantiate_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    request: ReasonedRequest | None = None,
) -> CommitReference:
    """Deploy the services of an approved group, as a new instance."""
    return change_state(adapters, user, group, IntentAct.INSTANTIATE, request)


@router.post("/{name}/terminate", status_code=202)
def terminate_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    request: ReasonedRequest | None = None,
) -> CommitReference:
    """Undeploy the services of an instantiated group."""
    return change_state(adapters, user, group, IntentAct.TERMINATE, request)


@router.post("/{name}/resume")
def resume_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    request: ActRequest,
) -> RecordedAct:
    """End the stop of a group whose failures stop only the group."""
    return RecordedAct.of(requests.resume_group(adapters, user, group, request.reason))


@router.get("/{name}/history", response_model=IntentHistoryBody)
def read_group_history(
    adapters: ConnectedAdapters, _user: Reader, group: Annotated[IntentSubject, Depends(_group)]
) -> Response:
    """Return who approved, began, changed and ended each instance, also after the removal of the group."""
    return show_history(adapters, group)


@router.post("/{name}/rollback", status_code=202, responses=UNCHANGED)
def roll_back_group(
    adapters: ConnectedAdapters,
    user: Operator,
    group: Annotated[IntentSubject, Depends(_group)],
    request: IntentRollbackRequest,
    response: Response,
) -> CommitReference:
    """Restore and approve the content that an instance of a group had."""
    outcome = requests.roll_back(adapters, user, group, request.instance, request.reason)
    return refer_to(outcome, response)


@router.get("/{name}/diff", response_model=IntentDifferenceBody, responses=TEXT_OR_JSON)
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


@router.get("/{name}/status", response_model=IntentStatusBody | InstancesBody)
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


@releases_router.get("/left-services")
def list_left_services(adapters: Adapters, _user: Reader) -> list[LeftServiceBody]:
    """Return the services that left the governance of their intents, and stay as published."""
    return [LeftServiceBody.of(one) for one in adapters.feed.left()]


@releases_router.post("/releases", status_code=202, responses=UNCHANGED)
def release_services(
    adapters: ConnectedAdapters, user: Operator, request: ServiceReleaseRequest, response: Response
) -> CommitReference:
    """Deploy services that left the governance of their intents as the tip of the branch has them."""
    return refer_to(requests.release(adapters, user, request.paths, request.reason), response)

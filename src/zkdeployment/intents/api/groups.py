"""Deployment intent groups, ``/api/v1/intents`` and ``/api/v1/releases``."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from zkdeployment.intents import requests
from zkdeployment.intents.api.answers import (
    GROUP_NAMES,
    TEXT_OR_JSON,
    AdoptParameter,
    StatusParameters,
    SubjectName,
    add_intent,
    check_new_state,
    intent_summary,
    list_documents,
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
    HISTORY,
    INSTANCES,
    LEFT_SERVICE,
    GroupDocument,
    IntentDifferenceBody,
    IntentStatusBody,
    IntentSummary,
)
from zkdeployment.intents.requests import counted_approvals
from zkdeployment.intents.rules.overview import intent_overviews
from zkdeployment.intents.user_acts import (
    AdoptServices,
    ApproveIntent,
    InstantiateIntent,
    ReleaseServices,
    ResumeGroup,
    RollBackIntent,
    TerminateIntent,
)
from zkdeployment.publishing.left_service import LeftService
from zkdeployment.service.access.rights import Operator, Reader
from zkdeployment.service.act import PlannedAct
from zkdeployment.service.act_routes import add_operation, address_field
from zkdeployment.service.acts import UNCHANGED, CommitReference
from zkdeployment.service.api.commits import ReasonParameter, refer_to
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters
from zkdeployment.service.error_responses import ERRORS

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
    return add_intent(adapters, user, intent, reason, adopt=adopt)


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


_SUBJECT = address_field("subject", Annotated[IntentSubject, Depends(_group)])

_ACTS: Mapping[str, type[PlannedAct[Any]]] = {
    "adopt": AdoptServices,
    "approve": ApproveIntent,
    "instantiate": InstantiateIntent,
    "terminate": TerminateIntent,
    "resume": ResumeGroup,
    "rollback": RollBackIntent,
}
for _name, _act in _ACTS.items():
    add_operation(router, f"/{{name}}/{_name}", _act, _SUBJECT)


@router.get("/{name}/history", response_model=HISTORY)
def read_group_history(
    adapters: ConnectedAdapters, _user: Reader, group: Annotated[IntentSubject, Depends(_group)]
) -> Response:
    """Return who approved, began, changed and ended each instance, also after the removal of the group."""
    return show_history(adapters, group)


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


@router.get("/{name}/status", response_model=IntentStatusBody | INSTANCES)
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

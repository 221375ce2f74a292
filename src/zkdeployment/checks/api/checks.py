"""``/api/v1/checks``: check configurations, their instances, monitoring systems, and acts on them.

Each act raises ``ForbiddenError`` if the paths of the user do not permit it, ``NotFoundError`` for an unknown
check or instance, and ``RefusedError`` if the service has no repository.
"""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import TreeError
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.names import check_node_path
from zkdeployment.checks import models
from zkdeployment.checks.acts import change_check, check_content, create_checks, delete_check
from zkdeployment.checks.api import deployments
from zkdeployment.checks.documents.kinds import CHECK, ON_CALL, SYSTEM
from zkdeployment.checks.feed import check_reading_of
from zkdeployment.checks.models import CheckDocument
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.overview import (
    InstanceFilter,
    instance_to_view,
    read_instance_id,
    read_state,
    selected,
    state_counts,
)
from zkdeployment.checks.user_acts import ACT_ON_CHECK, AbandonSystem, AllowRemoval, RetryInstance
from zkdeployment.checks.views.wanted import check_to_json, configurations_to_json, instances_of
from zkdeployment.publishing.acts.commits import CommitOutcome
from zkdeployment.service.access.identity import Operator, Reader
from zkdeployment.service.act import UNCHANGED, Actor, CommitReference
from zkdeployment.service.act_routes import add_operation, address_field
from zkdeployment.service.api.commits import ReasonParameter, refer_to
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.users.user import User


def create(adapters: ServerAdapters, user: User, name: str, data: object, reason: str) -> CommitOutcome:
    """Add the document of a new configuration; raises ``TreeError`` with the faults of ``data``."""
    content = check_content(name, data)
    _permit(adapters, user, CHECK.parse(content).path)
    commits = adapters.require_commits()
    return create_checks(commits, {(CHECK.name, name): content}, commits.author(user.name), sanitize(reason))


def replace(adapters: ServerAdapters, user: User, name: str, data: object, reason: str) -> CommitOutcome:
    """Give a configuration other values; raises ``TreeError`` with the faults of ``data``."""
    content = check_content(name, data)
    _permit(adapters, user, CHECK.parse(content).path)
    commits = adapters.require_commits()
    author, permit = commits.author(user.name), partial(_permit, adapters, user)
    return change_check(commits, name, content, author, sanitize(reason), permit=permit)


def remove(adapters: ServerAdapters, user: User, name: str, reason: str) -> CommitOutcome:
    """Remove the document of a configuration."""
    commits = adapters.require_commits()
    author, permit = commits.author(user.name), partial(_permit, adapters, user)
    return delete_check(commits, name, author, sanitize(reason), permit=permit)


def _permit(adapters: ServerAdapters, user: User, path: str) -> None:
    """Raise ``ForbiddenError`` unless a user may act on the checks of a node; the root is the whole fleet."""
    Actor.of_user(adapters, user).require(ACT_ON_CHECK, *filter(None, (path,)))


router = APIRouter(prefix="/api/v1/checks", tags=["checks"], responses=ERRORS)

CheckName = Annotated[str, Path(max_length=500, description="The name of a check configuration.")]
SystemName = Annotated[str, Path(max_length=500, description="The name of a monitoring system.")]
InstanceId = Annotated[str, Path(description="The identifier of a check instance: a UUID.")]


@router.get("", response_model=models.CHECKS)
def list_checks(adapters: ConnectedAdapters, _user: Reader) -> Response:
    """Return the published check configurations, monitoring systems and on-call duties."""
    documents = adapters.operator.fleet.documents()
    duties = documents.of(ON_CALL).values()
    body = configurations_to_json(documents.of(CHECK).values(), documents.of(SYSTEM).values(), duties)
    return JSONResponse(with_schema("checks", body))


@router.post("", status_code=202, responses=UNCHANGED)
def create_check(
    adapters: ConnectedAdapters,
    user: Operator,
    document: CheckDocument,
    response: Response,
    reason: ReasonParameter = "",
) -> CommitReference:
    """Add a check configuration; 409 if there is another one of its name."""
    outcome = create(adapters, user, document.metadata.name, document.data, reason)
    return refer_to(outcome, response)


@router.get("/instances", response_model=models.INSTANCES)
def list_instances(
    adapters: ConnectedAdapters,
    _user: Reader,
    state: Annotated[str | None, Query(description="Only instances in this state.")] = None,
    host: Annotated[str | None, Query(description="Only instances on this host: its id or its name.")] = None,
    path: Annotated[str | None, Query(description="Only those of services at and below this node.")] = None,
    check: Annotated[str | None, Query(description="Only instances of this check.")] = None,
) -> Response:
    """Return the check instances that match all of the given values, with their last results.

    The results of a monitoring system that reported nothing for five minutes are `unknown`.
    """
    if path is not None:
        check_node_path(path)
    wanted, reading = InstanceFilter(read_state(state), host, path, check), check_reading_of(adapters.feed)
    found = selected(reading.instances.values(), wanted)
    shown = [reading.view(instance).to_json() for instance in found]
    return JSONResponse(with_schema("check-instances", {"instances": shown}))


@router.get("/instances/drift", response_model=models.DRIFT)
def list_drift(adapters: ConnectedAdapters, _user: Reader) -> Response:
    """Return the checks that monitoring systems run in other configurations than the deployed ones.

    Their results are dropped. Differences that were not reported for an hour are left out.
    """
    found = check_adapters_of(adapters).drift(adapters.clock.now())
    return JSONResponse(with_schema("check-drift", {"drift": [entry.to_json() for entry in found]}))


@router.get("/instances/{uuid}", response_model=models.INSTANCE)
def show_instance(adapters: ConnectedAdapters, _user: Reader, uuid: InstanceId) -> Response:
    """Return a check instance with all its versions, their states, reasons and times."""
    checks = check_adapters_of(adapters)
    instance = checks.find(read_instance_id(uuid))
    results = checks.results([instance], adapters.clock.now())
    maintenance = adapters.feed.snapshot().fleet.maintenance.get(instance.key.host)
    body = instance_to_view(instance, results.get(instance.id), maintenance)
    return JSONResponse(with_schema("check-instance", body))


_RETRIED, _SYSTEM = address_field("uuid", InstanceId), address_field("system", SystemName)
add_operation(router, "/instances/{uuid}/retry", RetryInstance, _RETRIED, response_model=models.INSTANCE)
add_operation(router, "/systems/{system}/abandon", AbandonSystem, _SYSTEM, response_model=models.INSTANCES)
add_operation(
    router, "/systems/{system}/allow-removal", AllowRemoval, _SYSTEM, response_model=models.ALLOWED_REMOVAL
)


@router.get("/summary", response_model=models.SUMMARY)
def summarize(adapters: ConnectedAdapters, _user: Reader) -> Response:
    """Return each monitoring system with its last fetch, and how many instances wait for it."""
    summary = check_adapters_of(adapters).summary(adapters.clock.now())
    return JSONResponse(with_schema("checks-summary", summary.to_json()))


@router.get("/{name}", response_model=models.CHECK)
def show_check(adapters: ConnectedAdapters, _user: Reader, name: CheckName) -> Response:
    """Return a published check: its document, its instances by state, and its errors."""
    checks = check_adapters_of(adapters)
    document: dict[str, Any] = dict(checks.document(name))
    wanted = instances_of(checks.sources.read().basis, name)
    states = state_counts(selected(check_reading_of(adapters.feed).instances.values(), InstanceFilter(check=name)))
    return JSONResponse(
        with_schema("check", check_to_json(document, wanted, states, checks.instances.unwritten()))
    )


@router.put("/{name}", status_code=202, responses=UNCHANGED)
def replace_check(
    adapters: ConnectedAdapters,
    user: Operator,
    name: CheckName,
    document: CheckDocument,
    response: Response,
    reason: ReasonParameter = "",
) -> CommitReference:
    """Give a check configuration other values; comments and all other keys stay unchanged."""
    if document.metadata.name != name:
        raise TreeError(f"metadata.name: expected {name}, the name in the address, found {document.metadata.name}")
    return refer_to(replace(adapters, user, name, document.data, reason), response)


@router.delete("/{name}", status_code=202)
def remove_check(
    adapters: ConnectedAdapters, user: Operator, name: CheckName, reason: ReasonParameter = ""
) -> CommitReference:
    """Remove a check configuration, so that all its instances are undeployed."""
    return refer_to(remove(adapters, user, name, reason))


ROUTERS = (router, deployments.router)

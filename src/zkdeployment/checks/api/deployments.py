"""``/deployments``: the operations of monitoring systems (fetch, answer, report), at the root of the service."""

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Header, Path
from fastapi.responses import JSONResponse

from zkdeployment.checks import requests
from zkdeployment.checks.models import (
    ActiveDeployments,
    AnsweredDeployment,
    AnsweredDeployments,
    DeploymentAnswer,
    DeploymentAnswers,
    DeploymentDetails,
    DeploymentsList,
    FetchedDeployments,
    FetchedInstances,
    HostsAtWork,
    RecordedResults,
    ReportedResults,
)
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.service.access.rights import Monitoring
from zkdeployment.service.dependencies import ConnectedAdapters
from zkdeployment.service.error_responses import ERRORS, ErrorDetail
from zkdeployment.service.users.user import User

_LEASED: dict[int | str, dict[str, object]] = {
    423: {"model": ErrorDetail, "description": "Another bridge gets the updates of the monitoring system."}
}


def _hold_lease(
    adapters: ConnectedAdapters,
    user: Monitoring,
    bridge: Annotated[
        str,
        Header(
            alias="Zkdeployment-Bridge",
            max_length=200,
            pattern="^[ -~]*$",
            description="The name of the bridge; other bridges of the system are refused while it sends requests.",
        ),
    ] = "",
) -> None:
    requests.hold_lease(adapters, user.name, bridge)


router = APIRouter(prefix="/deployments", tags=["deployments"], responses=ERRORS | _LEASED)

#: The dependencies of operations that change something; every client of the system may read.
_LEASE = [Depends(_hold_lease)]

InstanceId = Annotated[str, Path(description="The identifier of a check instance: a UUID.")]
SystemName = Annotated[str, Path(description="The name of the monitoring system, which is that of the user.")]


@router.get("/id/{uuid}", response_model=DeploymentDetails, dependencies=_LEASE)
def fetch_deployment(uuid: InstanceId, adapters: ConnectedAdapters, user: Monitoring) -> JSONResponse:
    """Return the details of a check instance, and whether to deploy or to remove it.

    The instance is then in progress until its monitoring system answers; it may be fetched again. The task is
    `rollout`, `deprovision` (another configuration follows) or `delete`.
    """
    return JSONResponse(requests.fetch_deployment(adapters, user.name, uuid))


@router.patch("/id/{uuid}/{result}", dependencies=_LEASE)
def answer_deployment(
    uuid: InstanceId,
    result: Annotated[str, Path(description="`success` or `failed`.")],
    adapters: ConnectedAdapters,
    user: Monitoring,
    request: Annotated[DeploymentAnswer | None, Body()] = None,
) -> AnsweredDeployment:
    """Record whether the fetched deployment, or removal, succeeded.

    409 means that no answer is expected, or not to that configuration: treat it as done.
    """
    request = request or DeploymentAnswer()
    return AnsweredDeployment.of(
        requests.answer_deployment(
            adapters, user.name, uuid, result, config_id=request.config_id, reason=request.reason
        )
    )


@router.get("/monitoring/{system}", dependencies=_LEASE)
def list_flagged(system: SystemName, adapters: ConnectedAdapters, user: Monitoring) -> DeploymentsList:
    """Return the instances that have an update since the last call; each update is in one answer only."""
    _check_system(user, system)
    return _listed(requests.list_flagged(adapters, system))


@router.get("/monitoring/{system}/all", dependencies=_LEASE)
def list_open(system: SystemName, adapters: ConnectedAdapters, user: Monitoring) -> DeploymentsList:
    """Return all instances that wait to be deployed or removed, or for the answer about that."""
    _check_system(user, system)
    return _listed(requests.list_open(adapters, system))


@router.get("/monitoring/{system}/active")
def list_active(system: SystemName, adapters: ConnectedAdapters, user: Monitoring) -> ActiveDeployments:
    """Return the instances that are deployed, and those whose removal failed; this changes nothing.

    Deploy again what is missing, or has another configuration. Do not touch those whose removal failed.
    """
    _check_system(user, system)
    allowed = check_adapters_of(adapters).systems.removal_allowed_until(system) > adapters.clock.now()
    return ActiveDeployments.of(requests.list_deployed(adapters, system), removal_allowed=allowed)


@router.post("/monitoring/{system}/fetch", response_model=FetchedDeployments, dependencies=_LEASE)
def fetch_deployments(
    system: SystemName, adapters: ConnectedAdapters, user: Monitoring, request: FetchedInstances
) -> JSONResponse:
    """Fetch up to 500 instances: as `GET /deployments/id/{uuid}` for each of them, but much faster.

    Instances with nothing to deploy are in `missing`, those that could not be changed in `failed`.
    """
    _check_system(user, system)
    fetched = requests.fetch_deployments(adapters, system, request.deploymentsList)
    return JSONResponse(
        {
            "deployments": dict(fetched.deployments),
            "missing": dict(fetched.missing),
            "failed": dict(fetched.failed),
        }
    )


@router.post("/monitoring/{system}/answers", dependencies=_LEASE)
def answer_deployments(
    system: SystemName, adapters: ConnectedAdapters, user: Monitoring, request: DeploymentAnswers
) -> AnsweredDeployments:
    """Record the results of up to 500 deployments: as `PATCH /deployments/id/{uuid}/{result}` for each of them.

    Refused answers change nothing: treat them as done.
    """
    _check_system(user, system)
    given = {
        instance: requests.ManyAnswer(answer.result == "success", answer.config_id, answer.reason or "")
        for instance, answer in request.root.items()
    }
    outcome = requests.answer_deployments(adapters, system, given)
    return AnsweredDeployments(
        answered={found.id: AnsweredDeployment.of(found) for found in outcome.answered.values()},
        refused=dict(outcome.refused),
        failed=dict(outcome.failed),
    )


@router.put("/monitoring/{system}/results", dependencies=_LEASE)
def report_results(
    system: SystemName, adapters: ConnectedAdapters, user: Monitoring, request: ReportedResults
) -> RecordedResults:
    """Record the results that changed. Without any, the request is a sign of life: the last results still hold.

    A result that names another configuration than the deployed one is not recorded.
    """
    _check_system(user, system)
    now = adapters.clock.now()
    results = {instance: result.result(now) for instance, result in request.root.items()}
    return RecordedResults(ignored=sorted(requests.report_results(adapters, system, results)))


@router.get("/monitoring/{system}/work")
def list_hosts_at_work(system: SystemName, adapters: ConnectedAdapters, user: Monitoring) -> HostsAtWork:
    """Return the identifiers of the hosts that are in a deployment step, whose checks may fail meanwhile."""
    _check_system(user, system)
    return HostsAtWork(hosts=sorted(requests.hosts_at_work(adapters)))


def _listed(instances: Collection[str]) -> DeploymentsList:
    return DeploymentsList(deploymentsList=sorted(instances))


def _check_system(user: User, system: str) -> None:
    requests.check_system(user.name, system)

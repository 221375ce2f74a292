"""``/api/v1/checks``, checks and acts on them; and ``/deployments``, the interface for monitoring systems.

Each act raises ``ForbiddenError`` if the paths of the user do not permit it, ``NotFoundError`` for an unknown
check or instance, and ``RefusedError`` if the service has no repository.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import (
    ConfigurationError,
    ForbiddenError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    TreeError,
)
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.names import check_node_path
from zkdeployment.checks import models
from zkdeployment.checks.documents import CHECK, ON_CALL, SYSTEM
from zkdeployment.checks.feed import check_reading_of
from zkdeployment.checks.models import (
    ActiveDeployments,
    AnsweredDeployment,
    AnsweredDeployments,
    CheckDocument,
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
from zkdeployment.checks.rules import workflow
from zkdeployment.checks.rules.instance import DEPLOYED, CheckInstance
from zkdeployment.checks.rules.listing import (
    InstanceFilter,
    expected_configuration,
    instance_to_view,
    read_instance_id,
    read_state,
    selected,
    state_counts,
)
from zkdeployment.checks.rules.monitoring_system import SystemContact, hosts_at_work, is_removal_allowed
from zkdeployment.checks.user_acts import (
    ACT_ON_CHECK,
    AbandonSystem,
    AllowRemoval,
    RetryInstance,
    change_check,
    check_content,
    create_checks,
    delete_check,
)
from zkdeployment.checks.views.wanted import check_to_json, configurations_to_json, instances_of
from zkdeployment.publishing.acts.commits import CommitOutcome
from zkdeployment.service.access.identity import Monitoring, Operator, Reader
from zkdeployment.service.act import UNCHANGED, Actor, CommitReference
from zkdeployment.service.act_routes import add_operation, address_field
from zkdeployment.service.api.publications import ReasonParameter, refer_to
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.responses import ERRORS, ErrorDetail
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


#: The most characters of the reason of an answer that are kept.
_LONGEST_REASON = 1000

_RESULTS = {"success": True, "failed": False}

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
    """Renew the lease of a monitoring system for a bridge; raises ``LeaseHeldError`` if another one holds it."""
    lease = check_adapters_of(adapters).systems.lease(user.name, bridge, adapters.clock.now())
    if lease is not None and lease.holder != bridge:
        raise LeaseHeldError(
            f"another bridge gets the updates of the monitoring system {user.name}: {lease.holder}, until"
            f" {lease.end}; end one of them, or give it a monitoring system of its own"
        )


deployments = APIRouter(prefix="/deployments", tags=["deployments"], responses=ERRORS | _LEASED)

#: The dependencies of operations that change something; every client of the system may read.
_LEASE = [Depends(_hold_lease)]

Caller = Annotated[str, Path(description="The name of the monitoring system, which is that of the user.")]


@deployments.get("/id/{uuid}", response_model=DeploymentDetails, dependencies=_LEASE)
def fetch_deployment(uuid: InstanceId, adapters: ConnectedAdapters, user: Monitoring) -> JSONResponse:
    """Return the details of a check instance, and whether to deploy or to remove it.

    The instance is then in progress until its monitoring system answers; it may be fetched again. The task is
    `rollout`, `deprovision` (another configuration follows) or `delete`.
    """
    now, instance_id = adapters.clock.now(), read_instance_id(uuid)
    fetched: workflow.FetchedDeployment | None = None

    def change(_: str, instance: CheckInstance | None) -> CheckInstance:
        nonlocal fetched
        own = _own(instance, user.name, instance_id)
        outcome = workflow.fetch(own, now)
        if outcome is None:
            raise NotFoundError(_nothing_to_deploy(own))
        after, fetched = outcome
        return after

    check_adapters_of(adapters).instances.change([instance_id], change)
    check_adapters_of(adapters).systems.note_contact(user.name, SystemContact(fetched=now))
    assert fetched is not None  # noqa: S101  the change either raised or was made
    return JSONResponse(fetched.to_json())


@deployments.patch("/id/{uuid}/{result}", dependencies=_LEASE)
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
    given = request or DeploymentAnswer()
    now, instance_id = adapters.clock.now(), read_instance_id(uuid)
    if result not in _RESULTS:
        raise ConfigurationError(f"unknown result: expected success or failed, found {result[:100]!a}")

    def change(_: str, instance: CheckInstance | None) -> CheckInstance:
        own = _own(instance, user.name, instance_id)
        after = _answered(own, given, now, is_success=_RESULTS[result])
        if isinstance(after, workflow.CheckRefusal):
            raise RefusedError(f"no such answer is expected for the check instance {instance_id}: {after.reason}")
        return after

    _, after = check_adapters_of(adapters).instances.change([instance_id], change)[instance_id]
    assert after is not None  # noqa: S101  no answer removes an instance
    return AnsweredDeployment.of(after)


@deployments.get("/monitoring/{system}", dependencies=_LEASE)
def list_flagged(system: Caller, adapters: ConnectedAdapters, user: Monitoring) -> DeploymentsList:
    """Return the instances that have an update since the last call; each update is in one answer only."""
    _check_system(user, system)
    flagged = check_adapters_of(adapters).instances.flagged(system)
    return _listed(adapters, system, flagged, workflow.list_flagged)


@deployments.get("/monitoring/{system}/all", dependencies=_LEASE)
def list_open(system: Caller, adapters: ConnectedAdapters, user: Monitoring) -> DeploymentsList:
    """Return all instances that wait to be deployed or removed, or for the answer about that."""
    _check_system(user, system)
    return _listed(adapters, system, check_adapters_of(adapters).instances.open(system), workflow.list_open)


@deployments.get("/monitoring/{system}/active")
def list_active(system: Caller, adapters: ConnectedAdapters, user: Monitoring) -> ActiveDeployments:
    """Return the instances that are deployed, and those whose removal failed; this changes nothing.

    Deploy again what is missing, or has another configuration. Do not touch those whose removal failed.
    """
    _check_system(user, system)
    until = check_adapters_of(adapters).systems.removal_allowed_until(system)
    deployed = {
        instance.id: current
        for instance in check_adapters_of(adapters).instances.scan()
        if instance.system == system
        and (current := instance.current_configuration) is not None
        and current.state in DEPLOYED
    }
    return ActiveDeployments.of(deployed, removal_allowed=is_removal_allowed(until, adapters.clock.now()))


@deployments.post("/monitoring/{system}/fetch", response_model=FetchedDeployments, dependencies=_LEASE)
def fetch_deployments(
    system: Caller, adapters: ConnectedAdapters, user: Monitoring, request: FetchedInstances
) -> JSONResponse:
    """Fetch up to 500 instances: as `GET /deployments/id/{uuid}` for each of them, but much faster.

    Instances with nothing to deploy are in `missing`, those that could not be changed in `failed`.
    """
    _check_system(user, system)
    now, ids = adapters.clock.now(), {*map(read_instance_id, request.deploymentsList)}
    fetched: dict[str, Mapping[str, object]] = {}
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}

    def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
        fetched.pop(instance_id, None)
        if instance is None or instance.system != system:
            missing[instance_id] = _not_its_own(system, instance_id)
            return instance
        outcome = workflow.fetch(instance, now)
        if outcome is None:
            missing[instance_id] = _nothing_to_deploy(instance)
            return instance
        missing.pop(instance_id, None)
        after, deployment = outcome
        fetched[instance_id] = deployment.to_json()
        return after

    written = check_adapters_of(adapters).instances.change(ids, change, failed.update)
    check_adapters_of(adapters).systems.note_contact(system, SystemContact(fetched=now))
    return JSONResponse(
        {
            "deployments": {name: details for name, details in sorted(fetched.items()) if name in written},
            "missing": {name: reason for name, reason in sorted(missing.items()) if name in written},
            "failed": failed,
        }
    )


@deployments.post("/monitoring/{system}/answers", dependencies=_LEASE)
def answer_deployments(
    system: Caller, adapters: ConnectedAdapters, user: Monitoring, request: DeploymentAnswers
) -> AnsweredDeployments:
    """Record the results of up to 500 deployments: as `PATCH /deployments/id/{uuid}/{result}` for each of them.

    Refused answers change nothing: treat them as done.
    """
    _check_system(user, system)
    now = adapters.clock.now()
    answers = {read_instance_id(text): answer for text, answer in request.root.items()}
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}

    def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
        refused.pop(instance_id, None)
        if instance is None or instance.system != system:
            refused[instance_id] = _not_its_own(system, instance_id)
            return instance
        given = answers[instance_id]
        after = _answered(instance, given, now, is_success=given.result == "success")
        if isinstance(after, workflow.CheckRefusal):
            refused[instance_id] = after.reason
            return instance
        return after

    written = check_adapters_of(adapters).instances.change(answers, change, failed.update)
    answered = {
        after.id: AnsweredDeployment.of(after)
        for instance_id, (_, after) in written.items()
        if after is not None and instance_id not in refused
    }
    return AnsweredDeployments(answered=answered, refused=refused, failed=failed)


@deployments.put("/monitoring/{system}/results", dependencies=_LEASE)
def report_results(
    system: Caller, adapters: ConnectedAdapters, user: Monitoring, request: ReportedResults
) -> RecordedResults:
    """Record the results that changed. Without any, the request is a sign of life: the last results still hold.

    A result that names another configuration than the deployed one is not recorded.
    """
    _check_system(user, system)
    now, adapters_of_checks = adapters.clock.now(), check_adapters_of(adapters)
    reported = {read_instance_id(text): result.result(now) for text, result in request.root.items()}
    found = adapters_of_checks.instances.find([*reported])
    expected = {instance: expected_configuration(found.get(instance), system) for instance in reported}
    own = {
        instance: result
        for instance, result in reported.items()
        if (configuration := expected[instance]) is not None and result.is_of(configuration)
    }
    dropped = {instance: result.config_id or "" for instance, result in reported.items() if instance not in own}
    now, systems = adapters.clock.now(), adapters_of_checks.systems
    systems.record_results(system, own)
    systems.record_drift(system, dropped, own.keys(), now)
    systems.note_contact(system, SystemContact(reported=now))
    return RecordedResults(ignored=sorted(dropped))


@deployments.get("/monitoring/{system}/work")
def list_hosts_at_work(system: Caller, adapters: ConnectedAdapters, user: Monitoring) -> HostsAtWork:
    """Return the identifiers of the hosts whose checks may fail: in a deployment step, a reboot or maintenance."""
    _check_system(user, system)
    return HostsAtWork(hosts=sorted(hosts_at_work(adapters.feed.snapshot().fleet)))


def _check_system(user: User, system: str) -> None:
    """Raise ``ForbiddenError`` unless a user is the monitoring system."""
    if user.name != system:
        raise ForbiddenError(
            f"the user {user.name} may not ask for the deployments of the monitoring system {system}"
        )


def _answered(
    instance: CheckInstance, given: DeploymentAnswer, now: float, *, is_success: bool
) -> CheckInstance | workflow.CheckRefusal:
    reason = (given.reason or "")[:_LONGEST_REASON]
    return workflow.answer(instance, is_success=is_success, now=now, config_id=given.config_id, reason=reason)


def _listed(
    adapters: ServerAdapters,
    system: str,
    instances: Collection[str],
    request: Callable[[CheckInstance, float], tuple[CheckInstance, bool]],
) -> DeploymentsList:
    """Return the instances that a list contains, and record that the monitoring system was notified."""
    now = adapters.clock.now()

    def change(_: str, instance: CheckInstance | None) -> CheckInstance | None:
        return instance if instance is None or instance.system != system else request(instance, now)[0]

    changed = check_adapters_of(adapters).instances.change(instances, change)
    check_adapters_of(adapters).systems.note_contact(system, SystemContact(fetched=now))
    listed = (
        instance
        for instance, (before, _) in changed.items()
        if before is not None and before.system == system and request(before, now)[1]
    )
    return DeploymentsList(deploymentsList=sorted(listed))


def _own(instance: CheckInstance | None, system: str, instance_id: str) -> CheckInstance:
    """Return an instance that belongs to the monitoring system; raises ``NotFoundError`` for any other."""
    if instance is None or instance.system != system:
        raise NotFoundError(_not_its_own(system, instance_id))
    return instance


def _not_its_own(system: str, instance_id: str) -> str:
    return f"the monitoring system {system} has no check instance {instance_id}"


def _nothing_to_deploy(instance: CheckInstance) -> str:
    current = instance.current_configuration
    state = "it has no configuration yet" if current is None else f"its state is {current.state.value}"
    return f"there is nothing to deploy for the check instance {instance.id}: {state}"


ROUTERS = (router, deployments)

"""Measures the status of an intent: the resources of 200 apps on all hosts, with their statuses and counts."""

from collections.abc import Iterator

from benchmarks.results import Result, Scale, best, seconds
from zkdeployment.documents.intents.values import DeploymentIntentGroup, IntentState
from zkdeployment.intents.instances import InstanceService, IntentInstance, IntentRecord
from zkdeployment.intents.reality import (
    FleetReports,
    RecordedDeployment,
    ReportedHost,
    ReportedHosts,
    ServiceProvider,
)
from zkdeployment.intents.status_body import status_body
from zkdeployment.intents.status_query import StatusOutput, StatusQuery
from zkdeployment.model.deployment import Assignment, Deployment
from zkdeployment.model.host import Identity

_APPS = 200

#: The roles of the fleet, and how many of them each app has.
_ROLES = 100
_ROLES_OF_APP = 2


def measure(scale: Scale) -> Iterator[Result]:
    """Measure each output of the status, from what is read of ZooKeeper to the body of the response."""
    count = max(scale.hosts)
    record = _record()
    hosts = list(_hosts(record, count))
    providers = list(_providers(hosts))
    fleet = FleetReports(ReportedHosts(hosts), tuple(providers))
    resources = status_body(record, StatusQuery(), fleet)["rsync-status"]["Applied"]
    size = f"{_APPS} apps, {count:,} hosts, {resources:,} resources"
    for output in StatusOutput:
        query = StatusQuery(output)
        taken = [
            seconds(lambda: status_body(record, query, FleetReports(ReportedHosts(hosts), tuple(providers))))  # noqa: B023
            for _ in range(scale.rounds)
        ]
        yield Result(
            work=f"status of a group: {output.value}",
            size=size,
            value=best(taken),
            against="one second",
            reference=1.0,
            at_most=1,
        )


def _record() -> IntentRecord:
    apps = {f"app{number}": (f"/group/app{number}",) for number in range(_APPS)}
    group = DeploymentIntentGroup("project", "composite", "v1", "group", "profile", apps, IntentState.INSTANTIATED)
    services = tuple(
        InstanceService(app, f"role{(number + turn * 17) % _ROLES}", Assignment(path, 1, app, app, version="1"), 1)
        for number, (app, (path,)) in enumerate(apps.items())
        for turn in range(_ROLES_OF_APP)
    )
    instance = IntentInstance(1, 0.0, "alice", 1, apps, services)
    return IntentRecord(group, IntentState.INSTANTIATED, (instance,))


def _hosts(record: IntentRecord, count: int) -> Iterator[ReportedHost]:
    """Yield hosts that have deployed what their roles are to run."""
    of_role: dict[str, dict[Deployment, RecordedDeployment]] = {}
    for service in record.instances[0].services:
        for deployment in service.assignment.deployments:
            of_role.setdefault(service.target, {})[deployment] = RecordedDeployment("package", "1", 1)
    for number in range(count):
        role = f"role{number % _ROLES}"
        identity = Identity(f"host{number:05}", f"host{number:05}.example.com", role)
        yield ReportedHost(identity, deployments=dict(of_role[role]), completed=1, address=f"10.0.0.{number}")


def _providers(hosts: list[ReportedHost]) -> Iterator[ServiceProvider]:
    for host in hosts:
        for deployment in host.deployments or ():
            path = f"{deployment.path}/providers/{host.address}:80"
            yield ServiceProvider(path, deployment.path, host.identity.id, deployment, {"pid": 1})

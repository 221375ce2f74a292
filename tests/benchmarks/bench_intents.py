"""Measures the status of an intent: the resources of 200 apps on all hosts, with their statuses and counts.

The requests to ZooKeeper are counted in the client, for all hosts and for 50.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, best, seconds
from support.zookeeper import connected, sent_requests
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.intents.documents import DeploymentIntentGroup, IntentState
from zkdeployment.intents.rules.instances import InstanceService, IntentInstance, IntentRecord
from zkdeployment.intents.rules.reality import (
    FleetReports,
    RecordedDeployment,
    ReportedHost,
    ReportedHosts,
    ServiceProvider,
)
from zkdeployment.intents.rules.resources import StatusOutput, StatusQuery, status_body
from zkdeployment.intents.store import read_reports
from zkdeployment.publishing.store.hosts import encode
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

_APPS = 200

#: The roles of the fleet, and how many of them each app has.
_ROLES = 100
_ROLES_OF_APP = 2

#: The hosts of a small fleet, and of one transaction that writes a fleet.
_FEW = 50


def measure(scale: Scale) -> Iterator[Result]:
    """Measure each output of the status, from the records of ZooKeeper to the body of the response."""
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
    yield from _measure_reading(record, count)


def _measure_reading(record: IntentRecord, count: int) -> Iterator[Result]:
    """Measure the requests and the time that the reports of fleets of two sizes take."""
    requests, taken = {}, 0.0
    for hosts in (_FEW, count):
        with (
            tempfile.TemporaryDirectory() as scratch,
            running_server(Path(scratch)) as server,
            connected(server.address) as client,
            Session(server.address) as session,
            pytest.MonkeyPatch.context() as patches,
        ):
            _write(client, record, hosts)
            services = {service.assignment.path for service in record.instances[0].services}
            sent = sent_requests(session, patches)
            reports = []
            taken = seconds(lambda: reports.append(read_reports(session, services)))  # noqa: B023
            requests[hosts] = len(sent)
            assert len(reports[0].hosts.by_id) == hosts
    yield Result(
        work="status of a group: requests to ZooKeeper",
        size=f"{_APPS} apps, {count:,} hosts",
        value=requests[count],
        unit="requests",
        against=f"with {_FEW} hosts",
        reference=requests[_FEW],
        at_most=1.2,
    )
    yield Result(work="status of a group: reports read", size=f"{_APPS} apps, {count:,} hosts", value=taken)


def _write(client: KazooClient, record: IntentRecord, count: int) -> None:
    """Write hosts with their inventories, and a provider of each deployment, to ZooKeeper."""
    hosts = list(_hosts(record, count))
    for parent in (paths.HOSTS, paths.INVENTORY):
        client.ensure_path(parent)
    for service in {service.assignment.path for service in record.instances[0].services}:
        client.ensure_path(f"{service}/providers")
    nodes = {}
    for host in hosts:
        identity = host.identity
        markers = tuple(Marker(each, "app", "app", sequence=1) for each in host.deployments or ())
        nodes[f"{paths.HOSTS}/{identity.id}"] = json.dumps(Host(identity, sequence=1).properties()).encode()
        nodes[f"{paths.INVENTORY}/{identity.id}"] = encode(KnownHost(identity, Inventory(markers=markers)))
    for provider in _providers(hosts):
        nodes[provider.path] = json.dumps({"host": provider.host, "pid": 1}).encode()
    written = list(nodes.items())
    for start in range(0, len(written), _FEW):
        transaction = client.transaction()
        for path, data in written[start : start + _FEW]:
            transaction.create(path, data)
        transaction.commit()


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
    """Yield hosts that have deployed the services of their roles."""
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

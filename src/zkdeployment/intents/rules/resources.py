"""Resources: the deployments of an instance on each host, with their statuses; the progress of acts, and queries.

A query of a status has outputs and filters; the body of its answer has the keys of EMCO.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from fnmatch import fnmatchcase
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.base.deployment import Assignment, Deployment, DeploymentFailure
from zkdeployment.base.errors import ConfigurationError, NotFoundError
from zkdeployment.base.host import Identity, is_host_name
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.intents.documents import DeploymentIntentGroup, Intent, IntentSubject, subject_text
from zkdeployment.intents.rules.instances import InstanceService, IntentInstance, IntentRecord, instances_body
from zkdeployment.intents.rules.reality import (
    ClusterStatus,
    FleetReports,
    RecordedDeployment,
    ReportedHost,
    ResourceFacts,
    RsyncStatus,
    ServiceProvider,
    cluster_status,
    rsync_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence


#: The kinds of resources, as ``GVK`` names them.
DEPLOYMENT_KIND = "Deployment"
PROVIDER_KIND = "Provider"

#: The cluster of providers whose host is not known.
NO_CLUSTER = "-"


_NOTHING: Mapping[str, Any] = {}


class ResourceDetails(NamedTuple):
    """The parts of a resource that only detailed outputs have; ``labels`` are those of the wanted resource."""

    labels: Mapping[str, Any] = _NOTHING
    facts: Mapping[str, Any] = _NOTHING
    spec: Mapping[str, Any] = _NOTHING
    status: Mapping[str, Any] = _NOTHING


class ResourceRow(NamedTuple):
    """One resource.

    ``rsync`` is ``None`` for an unwanted resource that only hosts report. ``was_host_seen`` is ``False`` if no
    known host has the name that the tree names.
    """

    app: str
    cluster: str
    kind: str
    name: str
    rsync: RsyncStatus | None
    exists: ClusterStatus
    details: ResourceDetails | None = None
    was_host_seen: bool = True
    is_host_in_maintenance: bool = False


def instance_resources(
    instance: IntentInstance, reports: FleetReports, *, with_details: bool = False, with_reality: bool = True
) -> tuple[ResourceRow, ...]:
    """Return the resources of an instance, each once, sorted by app, cluster and name.

    Without ``with_reality``, details from hosts and resources that only hosts report are omitted.
    """
    if instance.final is not None:
        return tuple(row_from_json(value) for value in instance.final)
    rows = _ResourceReader(instance, reports, with_details=with_details, with_reality=with_reality).read()
    return tuple(sorted(rows, key=_order))


def is_terminating(rows: Iterable[ResourceRow]) -> bool:
    """Whether a host still has to undeploy a deployment."""
    return any(row.rsync is not None and row.exists is ClusterStatus.PRESENT for row in rows)


class _ResourceReader:
    """One reading of the resources of an instance."""

    def __init__(
        self, instance: IntentInstance, reports: FleetReports, *, with_details: bool, with_reality: bool
    ) -> None:
        self._instance = instance
        self._hosts = reports.hosts
        self._with_details = with_details
        self._with_reality = with_reality
        self._seen: set[tuple[str, Deployment]] = set()
        self._services: dict[str, dict[str, InstanceService]] = {}
        for service in instance.services:
            self._services.setdefault(service.assignment.path, {})[service.target] = service
        self._providers, self._strays = self._match(reports.providers if with_reality else ())

    def read(self) -> Iterator[ResourceRow]:
        """Yield the wanted resources, resources that are no longer wanted, then further ones that hosts report."""
        for is_wanted in (True, False):
            for service in self._instance.services:
                wanted = self._wanted_details(service) if self._with_details else None
                deployments = [
                    deployment
                    for deployment in service.assignment.deployments
                    if (deployment.number < service.wanted) is is_wanted
                ]
                for host in self._selected(service.target) if deployments else ():
                    for deployment in deployments:
                        key = (host.identity.id, deployment)
                        if key not in self._seen:
                            self._seen.add(key)
                            yield self._resource(service, host, deployment, wanted)
        if self._with_reality:
            yield from self._unwanted_markers()
            yield from self._unmatched_providers()

    def _selected(self, target: str) -> Sequence[ReportedHost]:
        """Return the hosts of a target; an unknown host name counts as a host that was never seen."""
        hosts = self._hosts.of(target)
        if not hosts and is_host_name(target):
            return (ReportedHost(Identity(target, target), is_present=False, was_seen=False),)
        return hosts

    def _resource(
        self, service: InstanceService, host: ReportedHost, deployment: Deployment, wanted: ResourceDetails | None
    ) -> ResourceRow:
        changed = self._instance.changed
        marker = None if host.deployments is None else host.deployments.get(deployment)
        failure = host.failure
        facts = ResourceFacts(
            is_wanted=deployment.number < service.wanted,
            has_failed=failure is not None
            and failure.sequence >= changed
            and failure.concerns(deployment, service.assignment),
            is_recorded=(
                host.completed is not None and host.completed >= changed and deployment.path not in host.lacking
            )
            or (marker is not None and marker.sequence is not None and marker.sequence >= changed),
            has_marker=None if host.deployments is None else marker is not None,
            may_deploy=host.is_present and not host.in_maintenance,
            was_host_seen=host.was_seen,
        )
        return ResourceRow(
            service.app,
            service.target,
            DEPLOYMENT_KIND,
            resource_name(host, deployment),
            rsync_status(facts),
            cluster_status(facts),
            None if wanted is None else self._details(wanted, host, service.assignment, deployment, marker),
            host.was_seen,
            host.in_maintenance,
        )

    def _wanted_details(self, service: InstanceService) -> ResourceDetails:
        """Return the details that all resources of a service share."""
        assignment = service.assignment
        spec: dict[str, Any] = {
            "package": assignment.package,
            "version": assignment.version,
            "subtype": assignment.subtype,
            "properties": dict(service.properties),
        }
        if assignment.patches:
            spec["patches"] = dict(assignment.patches)
        labels = {"zkdeployment/instance": self._instance.id, "zkdeployment/app": service.app}
        return ResourceDetails(labels=labels, spec=spec)

    def _details(
        self,
        wanted: ResourceDetails,
        host: ReportedHost,
        assignment: Assignment,
        deployment: Deployment,
        marker: RecordedDeployment | None,
    ) -> ResourceDetails:
        if not self._with_reality:
            return wanted
        providers = self._providers.get((host.identity.id, deployment), ())
        status = _reported(host, deployment, assignment, marker)
        status["providers"] = [{"path": provider.path, **provider.properties} for provider in providers]
        return ResourceDetails(wanted.labels, host.facts, wanted.spec, status)

    def _unwanted_markers(self) -> Iterator[ResourceRow]:
        """Yield deployments below the paths of the apps that hosts record, but that are not resources."""
        apps: dict[str, str | None] = {}
        for host in self._hosts.by_id.values():
            for deployment, marker in (host.deployments or {}).items():
                if deployment.path not in apps:
                    apps[deployment.path] = self._app_of(deployment.path)
                app = apps[deployment.path]
                key = (host.identity.id, deployment)
                if app is not None and key not in self._seen and self._is_ours(host):
                    self._seen.add(key)
                    yield ResourceRow(
                        app,
                        self._cluster_of(deployment.path, host),
                        DEPLOYMENT_KIND,
                        resource_name(host, deployment),
                        None,
                        ClusterStatus.PRESENT,
                        ResourceDetails(facts=host.facts, status=_reported(host, deployment, None, marker))
                        if self._with_details
                        else None,
                    )

    def _unmatched_providers(self) -> Iterator[ResourceRow]:
        """Yield the providers that belong to no resource."""
        for provider in self._strays:
            host = self._hosts.host_of(provider)
            app = self._app_of(provider.service)
            if app is not None and (host is None or self._is_ours(host)):
                yield ResourceRow(
                    app,
                    NO_CLUSTER if host is None else self._cluster_of(provider.service, host),
                    PROVIDER_KIND,
                    provider.path,
                    None,
                    ClusterStatus.PRESENT,
                    ResourceDetails(
                        facts={} if host is None else host.facts, status={"properties": dict(provider.properties)}
                    )
                    if self._with_details
                    else None,
                )

    def _match(
        self, providers: Sequence[ServiceProvider]
    ) -> tuple[dict[tuple[str, Deployment], list[ServiceProvider]], list[ServiceProvider]]:
        """Return the providers of each wanted resource, and the remaining providers."""
        matched: dict[tuple[str, Deployment], list[ServiceProvider]] = {}
        strays = []
        for provider in {provider.path: provider for provider in providers}.values():
            host = self._hosts.host_of(provider)
            deployment = provider.deployment or Deployment(provider.service, 0)
            if host is not None and self._is_wanted_on(host, deployment):
                matched.setdefault((host.identity.id, deployment), []).append(provider)
            else:
                strays.append(provider)
        return matched, strays

    def _is_wanted_on(self, host: ReportedHost, deployment: Deployment) -> bool:
        services = self._services.get(deployment.path, {})
        for target in host.targets:
            service = services.get(target)
            if service is not None and deployment.number < service.wanted:
                return True
        return False

    def _app_of(self, path: str) -> str | None:
        """Return the app whose subtree has a service, or ``None``."""
        while path:
            for app, paths in self._instance.apps.items():
                if path in paths:
                    return app
            path = path.rpartition("/")[0]
        return None

    def _is_ours(self, host: ReportedHost) -> bool:
        """Whether this instance may govern services on a host: a cluster governs only those of its own target."""
        target = self._instance.target
        return target is None or target in host.targets

    def _cluster_of(self, path: str, host: ReportedHost) -> str:
        """Return the target of a service that selects a host, else the host's role or id."""
        targets = self._services.get(path, {}).keys() & host.targets
        return min(targets, default=host.identity.role or host.identity.id)


def resource_name(host: ReportedHost, deployment: Deployment) -> str:
    """Return the name of the resource of a deployment: ``HOST:PATH.N``."""
    return f"{host.identity.id}:{deployment.path}.{deployment.number}"


def _reported(
    host: ReportedHost, deployment: Deployment, assignment: Assignment | None, marker: RecordedDeployment | None
) -> dict[str, Any]:
    """Return the report of a host about a deployment: its marker, and the step and the error of the host.

    A step and an error that concern another deployment are omitted.
    """
    recorded = (
        None
        if marker is None
        else {"package": marker.package, "version": marker.version, "sequence": marker.sequence}
    )
    if _concerns_another(host.failure, deployment, assignment):
        return {"marker": recorded, "step": None, "error": None}
    return {"marker": recorded, "step": host.step, "error": host.error}


def _concerns_another(
    failure: DeploymentFailure | None, deployment: Deployment, assignment: Assignment | None
) -> bool:
    """Whether a failure concerns other deployments; ``assignment`` is ``None`` for an unwanted deployment."""
    if failure is None or (failure.path is None and not failure.packages):
        return False
    if assignment is None:
        return failure.path != deployment.path or failure.number not in {None, deployment.number}
    return not failure.concerns(deployment, assignment)


def row_to_json(row: ResourceRow) -> dict[str, Any]:
    """Return a row with its details, in the recorded form of an instance's final status."""
    details = row.details or ResourceDetails()
    return {
        "app": row.app,
        "cluster": row.cluster,
        "kind": row.kind,
        "name": row.name,
        "rsync": None if row.rsync is None else row.rsync.value,
        "exists": row.exists.value,
        "labels": dict(details.labels),
        "facts": dict(details.facts),
        "spec": dict(details.spec),
        "status": dict(details.status),
    }


def row_from_json(value: Mapping[str, Any]) -> ResourceRow:
    """Return the row that ``row_to_json`` encoded."""
    return ResourceRow(
        value["app"],
        value["cluster"],
        value["kind"],
        value["name"],
        None if value["rsync"] is None else RsyncStatus(value["rsync"]),
        ClusterStatus(value["exists"]),
        ResourceDetails(value["labels"], value["facts"], value["spec"], value["status"]),
    )


def _order(row: ResourceRow) -> tuple[str, str, str, str]:
    return row.app, row.cluster, row.kind, row.name


#: The resources that a message names.
_NAMED = 10

#: The meaning of each status for a wait.
_REASONS = {
    RsyncStatus.PENDING: "pending",
    RsyncStatus.RETRYING: "its host is absent",
    RsyncStatus.APPLIED: "still deployed",
    RsyncStatus.TERMINATED: "not deployed",
    RsyncStatus.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class InstanceProgress:
    """The resources of an instance after an act: the number of done ones, and the failed and awaited ones.

    ``unseen`` resources are not done because their hosts were never seen, and ``away`` resources because their
    hosts are in maintenance; they are not awaited.
    """

    done: int
    failed: tuple[ResourceRow, ...]
    waiting: tuple[ResourceRow, ...]
    unseen: tuple[ResourceRow, ...] = ()
    away: tuple[ResourceRow, ...] = ()

    @property
    def awaited(self) -> str:
        """The awaited resources, with the reasons, in one line."""
        return _named(self.waiting)

    @property
    def not_awaited(self) -> tuple[str, ...]:
        """A sentence for each reason for which resources are not awaited."""
        reasons = {"these hosts were never seen": self.unseen, "these hosts are in maintenance": self.away}
        return tuple(
            f"not waited for, because {reason}: {listing([row.name for row in rows], _NAMED)}"
            for reason, rows in reasons.items()
            if rows
        )

    @property
    def failures(self) -> str:
        """The resources that failed, in one line."""
        return _named(self.failed)


def instance_progress(rows: Iterable[ResourceRow], *, is_active: bool) -> InstanceProgress:
    """Return the progress of an instance that has to be deployed (``is_active``) or undeployed.

    Resources of absent hosts are awaited, resources of hosts that were never seen or are in maintenance are not.
    Resources that only hosts report do not count.
    """
    wanted = RsyncStatus.APPLIED if is_active else RsyncStatus.TERMINATED
    # An update in place also undeploys services that are no longer wanted.
    done = {wanted, RsyncStatus.TERMINATED}
    counted = [row for row in rows if row.rsync is not None]
    unfinished = [row for row in counted if row.rsync not in done and row.rsync is not RsyncStatus.FAILED]
    return InstanceProgress(
        sum(row.rsync in done for row in counted),
        tuple(row for row in counted if row.rsync is RsyncStatus.FAILED),
        tuple(row for row in unfinished if row.was_host_seen and not row.is_host_in_maintenance),
        tuple(row for row in unfinished if not row.was_host_seen),
        tuple(row for row in unfinished if row.is_host_in_maintenance),
    )


def _named(rows: Sequence[ResourceRow]) -> str:
    return listing([f"{row.name} ({_REASONS[row.rsync]})" for row in rows if row.rsync is not None], _NAMED)


#: Sequences of publications have far fewer digits.
_LONGEST_ID = 18


class StatusOutput(Enum):
    """The level of detail of the resources in a status."""

    SUMMARY = "summary"
    ALL = "all"
    DETAIL = "detail"
    RSYNC = "rsync"


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """The part of a status that is shown. Values of one filter are alternatives, different filters combine.

    ``resources`` are names of resources, paths of nodes, and patterns of either: see ``_selects``. ``instance`` is
    the id of an instance; ``lists_instances`` requests the list of instances instead.
    """

    output: StatusOutput = StatusOutput.ALL
    apps: frozenset[str] = frozenset()
    clusters: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    instance: int | None = None
    lists_instances: bool = False

    def select(self, rows: Iterable[ResourceRow], known: Collection[IntentSubject]) -> tuple[ResourceRow, ...]:
        """Return the rows that the filters admit; the output rsync omits resources that only hosts report.

        ``known`` are the clusters of Cluster documents, which resolve ``PROVIDER+NAME``.
        """
        names = frozenset(name for provider, name in known if f"{provider}+{name}" in self.clusters)
        clusters = self.clusters | names
        has_all = self.output is not StatusOutput.RSYNC
        return tuple(
            row
            for row in rows
            if (not self.apps or row.app in self.apps)
            and (not clusters or row.cluster in clusters)
            and (not self.resources or any(_selects(wanted, row) for wanted in self.resources))
            and (has_all or row.rsync is not None)
        )


def _selects(wanted: str, row: ResourceRow) -> bool:
    """Whether a filter selects a resource.

    A filter is the name of the resource, the path of its service or of a node above, or a pattern of the name or
    of the path, in which ``*`` stands for any text and ``?`` for one character.
    """
    path = _service_path(row)
    if row.name == wanted or f"{path}/".startswith(f"{wanted.rstrip('/')}/"):
        return True
    return any(character in wanted for character in "*?[") and (
        fnmatchcase(row.name, wanted) or fnmatchcase(path, wanted)
    )


def _service_path(row: ResourceRow) -> str:
    """Return the path in the name of a resource: ``HOST:PATH.N`` for a deployment, a path for a provider."""
    if row.kind != DEPLOYMENT_KIND:
        return row.name
    return row.name[row.name.find(":/") + 1 :].rpartition(".")[0]


def read_query(parameters: Mapping[str, Sequence[str]]) -> StatusQuery:
    """Return the query that parameters describe; raises ``ConfigurationError`` for malformed ones."""
    for name in ("output", "app", "cluster", "resource"):
        if any(not value.strip() for value in parameters.get(name, ())):
            raise ConfigurationError(f"{name} is empty: expected a value; leave {name} out to select everything")
    instances = parameters.get("instance", ())
    return StatusQuery(
        output=_output(parameters.get("output", ())),
        apps=frozenset(parameters.get("app", ())),
        clusters=frozenset(parameters.get("cluster", ())),
        resources=frozenset(parameters.get("resource", ())),
        instance=_queried_instance(instances),
        lists_instances=any(not value for value in instances),
    )


def require_apps(query: StatusQuery, intent: Intent) -> None:
    """Raise ``ConfigurationError`` if a query names an app that the intent lacks.

    An unknown cluster or resource is not an error.
    """
    if unknown := sorted(query.apps - intent.apps.keys()):
        subject, names = subject_text(intent.subject), ", ".join(sorted(intent.apps))
        raise ConfigurationError(f"{subject} has no app {', '.join(unknown)}; expected one of: {names}")


def _output(values: Sequence[str]) -> StatusOutput:
    names = [output.value for output in StatusOutput]
    if len(set(values)) > 1 or any(value not in names for value in values):
        raise ConfigurationError(f"output is {', '.join(values)}: expected one of: {', '.join(names)}")
    return StatusOutput(values[0]) if values else StatusOutput.ALL


def _queried_instance(values: Sequence[str]) -> int | None:
    given = {value for value in values if value}
    if not given:
        return None
    if len(given) > 1 or not all(
        value.isascii() and value.isdigit() and len(value) <= _LONGEST_ID for value in given
    ):
        raise ConfigurationError(
            f"instance is {', '.join(sorted(given))}: expected the id of one instance, a number"
        )
    return int(given.pop())


def status_body(record: IntentRecord, query: StatusQuery, reports: FleetReports) -> dict[str, Any]:
    """Return the status of an intent: of its newest instance, or of the one that the query names.

    The status of an intent that was never instantiated has only its identity and its state. Raises
    ``NotFoundError`` for an instance that is not recorded.
    """
    if query.lists_instances and query.instance is None:
        return instances_body(record.instances)
    body: dict[str, Any] = {**_identity(record.intent), "state": record.state.value}
    instance = _instance(record, query)
    if instance is None:
        return body
    rows = instance_resources(
        instance,
        reports,
        with_details=query.output in {StatusOutput.DETAIL, StatusOutput.RSYNC},
        with_reality=query.output is not StatusOutput.RSYNC,
    )
    rows = query.select(rows, reports.clusters)
    rsync = Counter(row.rsync for row in rows)
    body["rsync-status"] = {status.value: rsync[status] for status in RsyncStatus if rsync[status]}
    if query.output is not StatusOutput.RSYNC:
        exists = Counter(row.exists for row in rows)
        body["cluster-status"] = {status.value: exists[status] for status in ClusterStatus if exists[status]}
    if query.output is not StatusOutput.SUMMARY:
        body["resources"] = _apps(rows, query.output)
    return body


def _identity(intent: Intent) -> dict[str, str]:
    if not isinstance(intent, DeploymentIntentGroup):
        return {"name": intent.name}
    return {
        "name": intent.name,
        "project": intent.project,
        "composite-app-name": intent.composite_app,
        "composite-app-version": intent.version,
        "composite-profile-name": intent.composite_profile,
    }


def _instance(record: IntentRecord, query: StatusQuery) -> IntentInstance | None:
    instance = record.instance(query.instance)
    if instance is not None or query.instance is None:
        return instance
    ids = ", ".join(str(instance.id) for instance in record.instances) or "none"
    subject = subject_text(record.intent.subject)
    raise NotFoundError(f"{subject} has no instance {query.instance}; those that are recorded: {ids}")


def _apps(rows: Sequence[ResourceRow], output: StatusOutput) -> list[dict[str, Any]]:
    """Return the resources by app and cluster; the rows are sorted by both."""
    resource = _OUTPUTS[output]
    return [
        {
            "app-name": app,
            "clusters": [
                {"name": cluster, "resources": [resource(row) for row in of_cluster]}
                for cluster, of_cluster in groupby(of_app, key=attrgetter("cluster"))
            ],
        }
        for app, of_app in groupby(rows, key=attrgetter("app"))
    ]


def _short(row: ResourceRow) -> dict[str, Any]:
    return {**_names(row), **_rsync_status(row), "cluster-status": row.exists.value}


def _detailed(row: ResourceRow) -> dict[str, Any]:
    details = row.details or ResourceDetails()
    resource = _names(row)
    resource["metadata"] = {"labels": details.labels, "host": details.facts}
    resource["spec"] = details.spec
    resource["status"] = details.status
    if row.rsync is not None:
        resource["rsync-status"] = row.rsync.value
    resource["cluster-status"] = row.exists.value
    return resource


def _wanted(row: ResourceRow) -> dict[str, Any]:
    details = row.details or ResourceDetails()
    return {**_names(row), "metadata": {"labels": details.labels}, "spec": details.spec, **_rsync_status(row)}


def _names(row: ResourceRow) -> dict[str, Any]:
    return {"GVK": {"Group": "zkdeployment", "Version": "v1", "Kind": row.kind}, "Name": row.name}


def _rsync_status(row: ResourceRow) -> dict[str, str]:
    return {} if row.rsync is None else {"rsync-status": row.rsync.value}


#: The form of a resource in each output that lists resources.
_OUTPUTS: Mapping[StatusOutput, Callable[[ResourceRow], dict[str, Any]]] = {
    StatusOutput.ALL: _short,
    StatusOutput.DETAIL: _detailed,
    StatusOutput.RSYNC: _wanted,
}

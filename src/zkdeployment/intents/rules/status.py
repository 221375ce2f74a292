"""Status queries of an intent: outputs and filters, and the body of the answer with the keys of EMCO."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import ConfigurationError, NotFoundError
from zkdeployment.intents.documents.values import DeploymentIntentGroup, subject_text
from zkdeployment.intents.rules.instances import instances_body
from zkdeployment.intents.rules.reality import ClusterStatus, RsyncStatus
from zkdeployment.intents.rules.resources import DEPLOYMENT_KIND, ResourceDetails, instance_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from zkdeployment.intents.documents.values import Intent, IntentSubject
    from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.intents.rules.resources import ResourceRow


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
    if query.instance is None:
        return record.instances[-1] if record.instances else None
    for instance in record.instances:
        if instance.id == query.instance:
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
                for cluster, of_cluster in groupby(of_app, key=_cluster)
            ],
        }
        for app, of_app in groupby(rows, key=_app)
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


def _app(row: ResourceRow) -> str:
    return row.app


def _cluster(row: ResourceRow) -> str:
    return row.cluster

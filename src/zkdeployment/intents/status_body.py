"""The body of a status query, with the keys of EMCO in EMCO's order."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.intents.values import DeploymentIntentGroup, subject_text
from zkdeployment.errors import NotFoundError
from zkdeployment.intents.instances import instances_body
from zkdeployment.intents.resource_status import ClusterStatus, RsyncStatus
from zkdeployment.intents.resources import ResourceDetails, instance_resources
from zkdeployment.intents.status_query import StatusOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.intents.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.intents.resources import ResourceRow
    from zkdeployment.intents.status_query import StatusQuery


def status_body(record: IntentRecord, query: StatusQuery, reports: FleetReports) -> dict[str, Any]:
    """Return the status of an intent: of its newest instance, or of the one that the query names.

    An intent that was never instantiated has its identity and its state only. Raises ``NotFoundError`` for an
    instance that is not recorded.
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

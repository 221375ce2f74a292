"""The reboots that hosts have recorded, and the failure of a host that does not come back in time.

Everybody who waits for hosts may find that a deadline has passed: a waiting host, the coordinator, the syncer, the
service. One transaction marks the record and writes the failure, so that the failure is written once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.base.cluster import ClusterEvent
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.publishing.store.cluster import (
    changing_cluster,
    cluster_of,
    decode_published,
    read_maintenance,
    recording_stop,
)
from zkdeployment.strategies.permission import PhaseReport
from zkdeployment.strategies.store.agent_records import encode_report, granting_id, read_judging_part
from zkdeployment.tree.values import node_name
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.server_time import server_time
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, commit_afresh

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Cluster
    from zkdeployment.base.publication import Published
    from zkdeployment.zookeeper.session import Session


def reboot_of(name: str, node: Node) -> RebootRecord:
    """Decode the node of a reboot."""
    return replace(RebootRecord.from_json(node.properties), host_id=unquote(name))


def read_reboot(session: Session, host_id: str) -> RebootRecord | None:
    """Return the recorded reboot of a host."""
    path = paths.reboot_path(host_id)
    node = session.get(path)
    return None if node is None else reboot_of(path.rpartition("/")[2], node)


def read_reboots(session: Session) -> tuple[RebootRecord, ...]:
    """Return the recorded reboots; without any, one request is sent."""
    names = session.children(paths.REBOOTS) or ()
    nodes = session.get_many(f"{paths.REBOOTS}/{name}" for name in names) if names else ()
    return tuple(reboot_of(name, node) for name, node in zip(names, nodes, strict=True) if node is not None)


def recording_reboot(session: Session, record: RebootRecord) -> list[Operation]:
    """Return the operations that record a reboot; it replaces an earlier one of the same host."""
    session.ensure(paths.REBOOTS)
    path, data = paths.reboot_path(record.host_id), encode(record.to_json())
    node = session.get(path)
    return [Create(path, data) if node is None else Set(path, data, node.version)]


def remove_reboot(session: Session, host_id: str) -> None:
    """Remove the record of a host's reboot, if there is one."""
    path = paths.reboot_path(host_id)

    def make() -> list[Operation] | None:
        node = session.get(path)
        return None if node is None else [Delete(path, node.version)]

    commit_afresh(session, make, f"remove {path}")


def expire_reboots(session: Session, now: float) -> tuple[RebootRecord, ...]:
    """Report each host that did not come back in time as failed, and return the records of these reboots.

    The failure stops the fleet, is reported to the rollout that judges the host, or concerns only a host that
    can be leased. If the fleet no longer has the publication, or the host is in maintenance, the record is only
    marked. ``now`` is the caller's time; ZooKeeper's must have passed the deadline, too, because one wrong clock
    would stop the fleet.
    """
    due = [record for record in read_reboots(session) if record.is_due(now)]
    if not due:
        return ()
    confirmed, expired = server_time(session), []
    for record in due:
        expiring = partial(_expiring, session, record, now, confirmed)
        if commit_afresh(session, expiring, f"report {record.host_name}"):
            get_logger().critical("host-not-back", host=record.host_name, step=record.step)
            expired.append(record)
    return tuple(expired)


def _expiring(session: Session, record: RebootRecord, now: float, confirmed: float) -> list[Operation] | None:
    """Return the operations that report a host; ``None`` before its deadline by ``confirmed`` (server time)."""
    path, stop = paths.reboot_path(record.host_id), record.failure(now)
    node, hosts, targets = session.get_many([path, paths.HOSTS, paths.TARGETS])
    if node is None or reboot_of(path.rpartition("/")[2], node) != record:
        return None
    if confirmed < node.modified + record.deadline - record.since:
        return None
    marking = Set(path, encode(replace(record, expired=True).to_json()), node.version)
    if hosts is None or read_maintenance(session, now, [node_name(path)]):
        return [marking]
    cluster = cluster_of(hosts)
    published = decode_published(targets)
    if not published.is_wanted(cluster, record.revision, record.sequence):
        return [marking]
    result = _recording_result(session, record, stop.reason, now)
    report = _report_path(session, record, published, cluster)
    if report is not None:
        data = encode_report(PhaseReport(now, stop.reason))
        reporting = [Create(report, data)] if session.get(report) is None else []
        return [marking, *reporting, *result]
    if record.alone:
        return [marking, *result]
    is_stopped = cluster.version is None and cluster.mandate(record.host_id) is None
    stopping = Check(paths.HOSTS, hosts.version) if is_stopped else changing_cluster(hosts, ClusterEvent.STOP)
    return [marking, stopping, *recording_stop(session, stop), *result]


def _report_path(session: Session, record: RebootRecord, published: Published, cluster: Cluster) -> str | None:
    """Return where the failure is reported to a rollout; ``None`` if no rollout judges the host.

    The rollout that permitted the step judges the host until that rollout stops the fleet or another one begins,
    then a later rollout of the publication, unless that rollout has the report of the host already.
    """
    if record.rollout is not None and record.phase is not None:
        report = paths.report_path(record.rollout, record.phase, record.host_id)
        rollouts, reports = session.get_many([paths.ROLLOUTS, report.rpartition("/")[0]])
        if granting_id(rollouts) == record.rollout and reports is not None:
            return report
    if record.alone:
        return None
    part = read_judging_part(session, published, cluster, record.sequence, record.host_id)
    if part is None:
        return None
    report = paths.report_path(part.rollout, part.phase.value, record.host_id)
    return report if session.get(report) is None else None


def _recording_result(session: Session, record: RebootRecord, reason: str, now: float) -> list[Operation]:
    """Return the operations that record the failure in the history, unless the host has a result there."""
    above = paths.history_path(record.sequence)
    path = f"{above}/{record.host_id}"
    publication, former = session.get_many([above, path])
    if publication is None or former is not None:
        return []
    seconds = now - record.since
    result = HostResult(record.host_id, record.host_name, now, seconds, reason, record.failed)
    return [Create(path, encode(result.to_json()))]

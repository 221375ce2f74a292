"""The changes that follow from finished tasks: what was done is combined with what has changed in the meantime."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.documents.pools.values import AnsibleMechanism
from zkdeployment.pools.filling_record import FillingRecord
from zkdeployment.pools.node import NodeEvent, PoolNode, end_of_provisioning, fail
from zkdeployment.pools.playbook_results import MechanismOutcome
from zkdeployment.pools.requests.waiting_request import in_queue_again
from zkdeployment.pools.snapshot import PoolChange
from zkdeployment.pools.work import TaskKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.pools.snapshot import PoolSnapshot
    from zkdeployment.pools.work import NodeTask


def finished(task: NodeTask, outcome: MechanismOutcome, read: PoolSnapshot, now: float) -> PoolChange:
    """Return the change after nodes were provisioned or deprovisioned.

    Nodes that this process has not claimed any more, or that are in another state now, stay unchanged.
    """
    held = _held(task, read)
    nodes = tuple(_carried_over(node, held[node.id]) for node in outcome.nodes if node.id in held)
    deleted = tuple(held[number] for number in outcome.deleted if number in held)
    filling: dict[str, FillingRecord] = {}
    if task.kind is TaskKind.PROVISION and held:
        name = task.pool.name
        record = read.filling.get(name, FillingRecord(values=task.pool.values))
        if outcome.problems:
            begun = max(node.changed for node in task.nodes)
            filling[name] = record.after_failure("; ".join(outcome.problems), begun, now)
        elif record.failures:
            filling[name] = record.after_success()
    return PoolChange(nodes=nodes, deleted=deleted, released=task.ids & read.own_claims, filling=filling)


def session_begun(
    task: NodeTask, read: PoolSnapshot, now: float, added: Mapping[int, tuple[str, ...]]
) -> PoolChange:
    """Return the change after all nodes of a session got the key of the tenant: its time is on record.

    ``added`` are the keys that nodes did not admit before, by the ids of the nodes.
    """
    deployed = tuple(
        node.after(NodeEvent.CONTEXTUALIZED, now, keys=added.get(node.id, ()))
        for node in _held(task, read).values()
    )
    session = None if task.session is None else read.sessions.get(task.session)
    begun = () if session is None or not deployed else (replace(session, begun_at=now),)
    return PoolChange(nodes=deployed, sessions=begun, released=task.ids & read.own_claims)


def session_undone(task: NodeTask, failures: Mapping[int, str], read: PoolSnapshot, now: float) -> PoolChange:
    """Return the change after a session could not begin; ``failures`` are the reasons of the nodes that failed.

    The key of the tenant is off all other nodes: they are ready again. The session is dropped, unless it has ended
    in the meantime: its nodes wait to be deprovisioned then. A request that waited for the session waits again.
    """
    held = _held(task, read)
    nodes = tuple(
        fail(node, failures[node.id], now) if node.id in failures else node.after(NodeEvent.CLEANED, now)
        for node in held.values()
    )
    session = None if task.session is None else read.sessions.get(task.session)
    if session is None or not held:
        return PoolChange(nodes=nodes, released=task.ids & read.own_claims)
    names = ", ".join(held[number].hostname or str(number) for number in failures if number in held)
    waiting = in_queue_again(session, f"contextualization of nodes failed: {names or 'some of them'}", now)
    return PoolChange(nodes=nodes, dropped=(session,), released=task.ids & read.own_claims, waiting=waiting)


def all_failed(task: NodeTask, reason: str, now: float) -> MechanismOutcome:
    """Return what becomes of the nodes of a task, other than a session's, that failed as a whole."""
    if task.kind is not TaskKind.PROVISION:
        detail = f"deprovisioning mechanism failed: {reason}"
        return MechanismOutcome(tuple(fail(node, detail, now) for node in task.nodes), (), (reason,))
    rest = {node.id: end_of_provisioning(node, now) for node in task.nodes}
    kept = tuple(node for node in rest.values() if node is not None)
    return MechanismOutcome(kept, tuple(number for number, node in rest.items() if node is None), (reason,))


def fail_with_keys(task: NodeTask, left: Mapping[int, str], now: float) -> MechanismOutcome:
    """Return the nodes that fail because the key of a tenant is still on them, for the reasons in ``left``.

    Such a key does no harm where a playbook or an agent resets the node.
    """
    mechanism = task.pool.mechanism
    if not isinstance(mechanism, AnsibleMechanism) or mechanism.deprovision is not None:
        return MechanismOutcome((), (), ())
    details = {
        number: f"the tenant's key cannot be removed, and the pool {task.pool.name} has no playbook that resets"
        f" the node: {reason}"
        for number, reason in left.items()
    }
    failed = tuple(fail(node, details[node.id], now) for node in task.nodes if node.id in details)
    return MechanismOutcome(failed, (), tuple(details[node.id] for node in failed))


def given_up(task: NodeTask, read: PoolSnapshot) -> PoolChange:
    """Return the change after a task was interrupted: another worker may begin it again."""
    return PoolChange(released=task.ids & read.own_claims)


def _held(task: NodeTask, read: PoolSnapshot) -> dict[int, PoolNode]:
    """Return the nodes of a task that this process has still claimed, and that are still in the task's state."""
    return {
        number: read.nodes[number]
        for number in sorted(task.ids & read.own_claims & read.nodes.keys())
        if read.nodes[number].state is task.kind.state
    }


def _carried_over(after: PoolNode, present: PoolNode) -> PoolNode:
    """Return a node after a task, with what operators have changed in the meantime."""
    return replace(
        after, comment=present.comment, reusable=present.reusable, stamp=present.stamp, unknown=present.unknown
    )

"""The results of tasks and playbooks, and the changes of nodes and sessions that follow from them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from zkdeployment.base.records import Key, Record
from zkdeployment.base.values import dataclass
from zkdeployment.pools.documents import AnsibleMechanism, NodePool
from zkdeployment.pools.rules.node import (
    NodeEvent,
    PoolNode,
    Time,
    end_of_deprovisioning,
    end_of_provisioning,
    fail,
    shown,
    template_problem,
)
from zkdeployment.pools.rules.snapshot import FillingRecord, PoolChange, PoolSnapshot, in_queue_again
from zkdeployment.pools.rules.work import NodeTask, TaskKind


@dataclass(frozen=True, slots=True)
class MechanismOutcome:
    """The effect of a mechanism on nodes.

    ``nodes`` are the nodes afterwards, ``deleted`` the ids of nodes that no longer exist, because they could not
    be provisioned, and ``problems`` sentences about failures.
    """

    nodes: tuple[PoolNode, ...] = ()
    deleted: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, after: Mapping[int, PoolNode | None], problems: Iterable[str]) -> MechanismOutcome:
        """Return the outcome with nodes by id, ``None`` for nodes that no longer exist."""
        kept = tuple(node for node in after.values() if node is not None)
        return cls(kept, tuple(number for number, node in after.items() if node is None), tuple(problems))


def provisioned(nodes: Sequence[PoolNode], output: object, now: float) -> MechanismOutcome:
    """Return the nodes after the playbook that provisions them.

    The results are in the order of the nodes. A result needs a valid ``ipaddr``; without ``hostname`` the address
    is the provisional name. A node without a result, or with a template in its result, was not provisioned.
    """
    results, problems = _results(output)
    after: dict[int, PoolNode | None] = {}
    for position, node in enumerate(nodes):
        result = results[position] if position < len(results) else None
        problem = "there is no result" if result is None else _result_problem(result)
        if result is not None and problem is None:
            after[node.id] = _ready(node, result, now)
        else:
            problems.append(f"node {node.id} was not provisioned: {problem}")
            after[node.id] = end_of_provisioning(node, now)
    if len(results) > len(nodes):
        problems.append(f"{len(results)} results for {len(nodes)} nodes; the last ones are ignored")
    return MechanismOutcome.of(after, problems)


def deprovisioned(nodes: Sequence[PoolNode], output: object, now: float) -> MechanismOutcome:
    """Return the nodes after the playbook that deprovisions them.

    A result belongs to the node whose data of provisioning has all values of the result. Nodes without a result
    have failed.
    """
    results, problems = _results(output)
    left = list(nodes)
    ended: list[PoolNode] = []
    for result in results:
        match = next((node for node in left if _is_about(result, node)), None)
        if match is None:
            problems.append(f"a result matches no node: {shown(dict(result))}")
        else:
            left.remove(match)
            ended.append(end_of_deprovisioning(match, now))
    for node in left:
        problems.append(f"node {node.id} is in no result of deprovisioning")
        ended.append(fail(node, "deprovisioning node failed: the playbook's result does not have it", now))
    return MechanismOutcome(tuple(ended), (), tuple(problems))


def _results(output: object) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return the results in an output, and the problems of the output."""
    nodes = output.get("nodes") if isinstance(output, Mapping) else None
    if not isinstance(nodes, list):
        return [], [f"expected duffy_out with a list of nodes, found {shown(output)}"]
    return [result if isinstance(result, Mapping) else {} for result in nodes], []


def _ready(node: PoolNode, result: Mapping[str, Any], now: float) -> PoolNode:
    hostname = result.get("hostname") or result["ipaddr"]
    data = {**node.data, "provision": dict(result)}
    return node.after(NodeEvent.PROVISIONED, now, hostname=str(hostname), ipaddr=result["ipaddr"], data=data)


def _result_problem(result: Mapping[str, Any]) -> str | None:
    """Return why a result has no usable address, or a forbidden value; ``None`` for a valid result."""
    address = result.get("ipaddr")
    try:
        ipaddress.ip_address(address if isinstance(address, str) else "")
    except ValueError:
        return f"expected the address of the node as ipaddr, found {shown(address)}"
    return template_problem(result)


def _is_about(result: Mapping[str, Any], node: PoolNode) -> bool:
    """Whether a result has values, and the provisioning of a node has all of them."""
    known = node.data.get("provision")
    if not result or not isinstance(known, Mapping):
        return False
    return all(key in known and known[key] == value for key, value in result.items())


#: The limit of kept characters of an output; the last ones are kept.
_LONGEST = 20_000


def _end(output: str) -> str:
    return output[-_LONGEST:]


@dataclass(frozen=True, slots=True)
class PlaybookRun(Record):
    """A run that has ended. ``begun`` is in seconds since the epoch; ``nodes`` are the ids of the nodes."""

    id: int
    pool: str
    playbook: str
    nodes: tuple[int, ...]
    begun: Time
    seconds: float
    succeeded: bool
    output: Annotated[str, Key(write=_end)]


def finished(task: NodeTask, outcome: MechanismOutcome, read: PoolSnapshot, now: float) -> PoolChange:
    """Return the change after nodes were provisioned or deprovisioned.

    Nodes that this process no longer claims, or that are in another state, stay unchanged.
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
    """Return the change, with its time, after all nodes of a session got the key of the tenant.

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
    """Return the change after a session could not begin; ``failures`` has the reasons of failed nodes.

    The key of the tenant was removed from all other nodes, which are ready again. The session is dropped. If it
    has ended in the meantime, its nodes wait to be deprovisioned. A request that waited for the session waits
    again.
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
    """Return the outcome for the nodes of a task without a session that failed as a whole."""
    if task.kind is not TaskKind.PROVISION:
        detail = f"deprovisioning mechanism failed: {reason}"
        return MechanismOutcome(tuple(fail(node, detail, now) for node in task.nodes), (), (reason,))
    return MechanismOutcome.of({node.id: end_of_provisioning(node, now) for node in task.nodes}, (reason,))


def fail_with_keys(task: NodeTask, left: Mapping[int, str], now: float) -> MechanismOutcome:
    """Return the nodes that fail because they still have the key of a tenant, for the reasons in ``left``.

    Such a key is harmless if a playbook or an agent resets the node.
    """
    details = {
        node.id: f"the tenant's key cannot be removed, and the pool {node.pool} has no playbook that resets the"
        f" node: {left[node.id]}"
        for node in task.nodes
        if node.id in left and not _is_reset(node, task.pools.get(node.id))
    }
    failed = tuple(fail(node, details[node.id], now) for node in task.nodes if node.id in details)
    return MechanismOutcome(failed, (), tuple(details[node.id] for node in failed))


def _is_reset(node: PoolNode, pool: NodePool | None) -> bool:
    """Whether an agent or a playbook resets a node that is deprovisioned."""
    mechanism = None if pool is None else pool.mechanism
    return node.host is not None or (isinstance(mechanism, AnsibleMechanism) and mechanism.deprovision is not None)


def given_up(task: NodeTask, read: PoolSnapshot) -> PoolChange:
    """Return the change after a task was interrupted: another worker may begin it again."""
    return PoolChange(released=task.ids & read.own_claims)


def _held(task: NodeTask, read: PoolSnapshot) -> dict[int, PoolNode]:
    """Return the nodes of a task that this process still claims, and that are still in the task's state."""
    return {
        number: read.nodes[number]
        for number in sorted(task.ids & read.own_claims & read.nodes.keys())
        if read.nodes[number].state is task.kind.state
    }


def _carried_over(after: PoolNode, present: PoolNode) -> PoolNode:
    """Return a node after a task, with the changes by operators in the meantime."""
    return replace(
        after, comment=present.comment, reusable=present.reusable, stamp=present.stamp, unknown=present.unknown
    )

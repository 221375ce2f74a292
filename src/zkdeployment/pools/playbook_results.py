"""The results of playbooks, ``duffy_out``: which node each of them is about."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.pools.node import NodeEvent, end_of_deprovisioning, end_of_provisioning, fail
from zkdeployment.pools.reasons import shown
from zkdeployment.pools.templates import template_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.pools.node import PoolNode


@dataclass(frozen=True, slots=True)
class MechanismOutcome:
    """The effect of a mechanism on nodes.

    ``nodes`` are the nodes afterwards, ``deleted`` the ids of those that do not exist any more, because they could
    not be provisioned, and ``problems`` sentences on what was wrong.
    """

    nodes: tuple[PoolNode, ...]
    deleted: tuple[int, ...]
    problems: tuple[str, ...]


def provisioned(nodes: Sequence[PoolNode], output: object, now: float) -> MechanismOutcome:
    """Return the nodes after the playbook that provisions them.

    The results are about the nodes in their order. A result needs a valid ``ipaddr``; without ``hostname`` the
    address is the name for the time being. A node without a result was not provisioned, and one whose result has a
    template neither.
    """
    results, problems = _results(output)
    kept: list[PoolNode] = []
    deleted: list[int] = []
    for position, node in enumerate(nodes):
        result = results[position] if position < len(results) else None
        problem = "there is no result" if result is None else _result_problem(result)
        if result is not None and problem is None:
            kept.append(_ready(node, result, now))
            continue
        problems.append(f"node {node.id} was not provisioned: {problem}")
        rest = end_of_provisioning(node, now)
        if rest is None:
            deleted.append(node.id)
        else:
            kept.append(rest)
    if len(results) > len(nodes):
        problems.append(f"{len(results)} results for {len(nodes)} nodes; the last ones are ignored")
    return MechanismOutcome(tuple(kept), tuple(deleted), tuple(problems))


def deprovisioned(nodes: Sequence[PoolNode], output: object, now: float) -> MechanismOutcome:
    """Return the nodes after the playbook that deprovisions them.

    A result is about the node whose data of provisioning has all its values. Nodes without a result have failed.
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
    """Return the results in an output, and what is wrong with it."""
    nodes = output.get("nodes") if isinstance(output, Mapping) else None
    if not isinstance(nodes, list):
        return [], [f"expected duffy_out with a list of nodes, found {shown(output)}"]
    return [result if isinstance(result, Mapping) else {} for result in nodes], []


def _ready(node: PoolNode, result: Mapping[str, Any], now: float) -> PoolNode:
    hostname = result.get("hostname") or result["ipaddr"]
    data = {**node.data, "provision": dict(result)}
    return node.after(NodeEvent.PROVISIONED, now, hostname=str(hostname), ipaddr=result["ipaddr"], data=data)


def _result_problem(result: Mapping[str, Any]) -> str | None:
    """Return why a result has no usable address, or a value that no playbook may get; ``None`` for a good one."""
    address = result.get("ipaddr")
    try:
        ipaddress.ip_address(address if isinstance(address, str) else "")
    except ValueError:
        return f"expected the address of the node as ipaddr, found {shown(address)}"
    return template_problem(result)


def _is_about(result: Mapping[str, Any], node: PoolNode) -> bool:
    """Whether all values of a result, and at least one, are those of a node's provisioning."""
    known = node.data.get("provision")
    if not result or not isinstance(known, Mapping):
        return False
    return all(key in known and known[key] == value for key, value in result.items())

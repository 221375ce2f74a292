"""Finds services that could never be deployed, because in the end they would wait for themselves."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING

from zkdeployment.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.model.publication import Targets

_ROLES = "/roles/"


def order_problems(targets: Targets, services: Collection[str]) -> tuple[Problem, ...]:
    """Return the errors in the order between services; ``services`` are the paths of all service nodes.

    A host with a role controller deploys all its services in one bracket. All of them wait together, so such
    services are in a circle as if each waited for the others.
    """
    waiting = {
        assignment.path: assignment.after
        for assignments in targets.values()
        for assignment in assignments
        if assignment.after
    }
    if not waiting:
        return ()
    return (*_unknown(waiting, services), *_circles(waiting, targets))


def _unknown(waiting: Mapping[str, Collection[str]], services: Collection[str]) -> Iterator[Problem]:
    for path, awaited in sorted(waiting.items()):
        for name in awaited:
            if name not in services:
                message = f"deploy_after names {name}, expected the path of a service; no service has this path"
                yield Problem(message, path=path)


def _circles(waiting: Mapping[str, Collection[str]], targets: Targets) -> Iterator[Problem]:
    """Yield one problem for each circle, at its first service in the order of paths."""
    edges = _edges(waiting, targets)
    found: set[frozenset[str]] = set()
    for path, awaited in sorted(waiting.items()):
        for name in awaited:
            way = _way(name, path, edges)
            if way is not None and frozenset(way) not in found:
                found.add(frozenset(way))
                yield Problem(_sentence([path, *way]), path=path)


def _edges(waiting: Mapping[str, Collection[str]], targets: Targets) -> dict[str, list[str]]:
    """Return what each service waits for; services under one role controller wait for each other, by its node."""
    edges = {path: [*awaited] for path, awaited in waiting.items()}
    for controller in targets:
        if controller.startswith(_ROLES):
            for assignment in targets.get(controller.removeprefix(_ROLES), ()):
                if assignment.n:
                    edges.setdefault(assignment.path, []).append(controller)
                    edges.setdefault(controller, []).append(assignment.path)
    return edges


def _way(start: str, end: str, edges: Mapping[str, Collection[str]]) -> list[str] | None:
    """Return the shortest way from one service to another, with both; ``None`` if it does not exist."""
    before: dict[str, str | None] = {start: None}
    reached = deque([start])
    while reached:
        node = reached.popleft()
        if node == end:
            way: list[str] = []
            step: str | None = node
            while step is not None:
                way.insert(0, step)
                step = before[step]
            return way
        for neighbour in edges.get(node, ()):
            if neighbour not in before:
                before[neighbour] = node
                reached.append(neighbour)
    return None


def _sentence(circle: list[str]) -> str:
    """Return the message about a circle, given as its services in order, the first of them again at the end."""
    parts = [circle[0]]
    for before, node in pairwise(circle):
        if node.startswith(_ROLES):
            continue
        if before.startswith(_ROLES):
            parts.append(f"which runs under the controller of role {before.removeprefix(_ROLES)} with {node}")
        else:
            parts.append(f"{'which ' if len(parts) > 1 else ''}waits for {node}")
    sentence = f"{parts[0]} {', '.join(parts[1:])}"
    return f"deploy_after makes a circle, so none of these is ever deployed: {sentence}; remove one of the waits"

"""Coverage of intents: paths that govern no service, although the document reads as if they did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import ClusterIntents
from zkdeployment.errors import LinkError
from zkdeployment.model.listing import listing
from zkdeployment.model.problem import Severity
from zkdeployment.model.tree import SYMBOLIC_LINK, parent_path
from zkdeployment.planning.targets.governance import INTENT_PATHS, is_governed
from zkdeployment.tree.links import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.documents.collection import DocumentEntry, Documents
    from zkdeployment.documents.intents.values import Intent
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.tree import Properties, Tree

#: The child of a service node that lists its targets.
_DEPLOY = "deploy"

#: The most targets that a message names.
_NAMED = 5


def coverage_problems(documents: Documents, tree: Tree, targets: Targets) -> Iterator[Problem]:
    """Yield a warning for each path of an intent that governs no service, and for services behind links.

    ``targets`` are those of the whole tree, with nothing withheld. Paths that are no nodes are errors elsewhere.
    """
    entries = [entry for (kind, _), entry in documents.entries.items() if kind in INTENT_PATHS]
    if not entries:
        return
    intents = tuple(entry.value for entry in entries)
    coverage = _Coverage(intents, tree, targets)
    for entry in entries:
        yield from _entry_problems(entry, coverage)


def idle_paths(intent: Intent, nodes: Mapping[str, Properties]) -> tuple[str, ...]:
    """Return the paths of an intent at or below which these nodes have no service for it, sorted."""
    link = f"{_DEPLOY}{SYMBOLIC_LINK}"
    services = {
        path
        for path, targets in _services(nodes).items()
        if intent.target is None or intent.target in targets or link in nodes.get(path, ())
    }
    covered = {above for service in services for above in _upwards(service)}
    paths = {path for paths in intent.apps.values() for path in paths}
    return tuple(sorted(paths - covered))


class _Coverage:
    """The services of a tree, by their paths and by the nodes above them."""

    def __init__(self, intents: tuple[Intent, ...], tree: Tree, targets: Targets) -> None:
        self.intents = intents
        self.tree = tree
        self.services: dict[str, set[str]] = {path: set(names) for path, names in _services(tree.nodes).items()}
        for target, assignments in targets.items():
            for assignment in assignments if not target.startswith("/") else ():
                self.services.setdefault(assignment.path, set()).add(target)
        self._below: dict[str, list[str]] = {}
        for service in self.services:
            for above in _upwards(service):
                self._below.setdefault(above, []).append(service)

    def below(self, path: str) -> list[str]:
        """Return the services at or below a node."""
        return self._below.get(path, [])

    def service_above(self, path: str) -> str | None:
        """Return the nearest service above a node."""
        return next((above for above in _upwards(parent_path(path)) if above in self.services), None)

    def linked(self, top: str, target: str | None) -> Iterator[tuple[str, str]]:
        """Yield each link outside services, below a node, to a service that no intent governs, with the service.

        Links of services themselves lead to what the services read.
        """
        waiting = [top]
        while waiting:
            path = waiting.pop()
            if path in self.services:
                continue
            waiting += (f"{path}/{name}" for name in self.tree.children(path))
            for key in self.tree.properties(path) or ():
                if key.endswith(SYMBOLIC_LINK):
                    link = f"{path}/{key.removesuffix(SYMBOLIC_LINK)}"
                    yield from ((link, service) for service in self._behind(link, target))

    def _behind(self, link: str, target: str | None) -> Iterator[str]:
        try:
            services = self.below(resolve(self.tree.properties, link))
        except LinkError:
            return
        for service in services:
            is_concerned = target is None or target in self.services[service]
            if is_concerned and not is_governed(self.intents, service, target):
                yield service


def _entry_problems(entry: DocumentEntry, coverage: _Coverage) -> Iterator[Problem]:
    intent: Intent = entry.value
    for app, paths in intent.apps.items():
        for position, path in enumerate(paths):
            if path in coverage.tree:
                way = ("data", INTENT_PATHS[entry.kind.name], app, position)
                for message in _path_messages(intent, path, coverage):
                    yield replace(entry.problem(way, message), severity=Severity.WARNING)


def _path_messages(intent: Intent, path: str, coverage: _Coverage) -> Iterator[str]:
    linked = sorted(set(coverage.linked(path, intent.target)))
    for link, service in linked:
        yield (
            f"the service {service} is reached only through the link {link}: it is not governed; name {service}"
            " among the paths"
        )
    services = coverage.below(path)
    if isinstance(intent, ClusterIntents) and services:
        known = sorted({target for service in services for target in coverage.services[service]})
        if intent.target not in known:
            expected = f"expected one of: {listing(known, _NAMED)}" if known else "nothing is deployed there"
            yield f"no service at or below {path} has the target {intent.target}: nothing is governed; {expected}"
    elif not services and not linked:
        above = coverage.service_above(path)
        expected = (
            "a path at or above a service" if above is None else f"the path of the service above it, {above}"
        )
        yield f"there is no service at or below {path}: nothing is governed; expected {expected}"


def _services(nodes: Mapping[str, Properties]) -> dict[str, set[str]]:
    """Return the targets that each service node lists; without those that links add."""
    services: dict[str, set[str]] = {}
    for path, properties in nodes.items():
        parent, _, name = path.rpartition("/")
        if name == _DEPLOY:
            services.setdefault(parent, set())
        elif parent.endswith(f"/{_DEPLOY}"):
            services.setdefault(parent_path(parent), set()).add(name)
        if f"{_DEPLOY}{SYMBOLIC_LINK}" in properties:
            services.setdefault(path, set())
    return services


def _upwards(path: str) -> Iterable[str]:
    """Yield a path and the paths of the nodes above it."""
    while path:
        yield path
        path = parent_path(path)

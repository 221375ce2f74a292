"""The targets of a pushed tree, for the checks. Pure: compiled with the program's own functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chaos.trees import SERVICES, path_of
from zkdeployment.base.errors import TreeError
from zkdeployment.publishing.targets.compiler import compile_targets, wanted_for
from zkdeployment.tree.layers import merge
from zkdeployment.tree.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.base.deployment import Assignment, DesiredState
    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import Targets


@dataclass(frozen=True, slots=True)
class PushedTree:
    """A valid tree: the services of each host, by its id, and the targets to publish.

    ``texts`` are the properties ``text`` of the services by path.
    """

    hosts: Mapping[str, DesiredState]
    targets: Targets = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def assignment(self, host: str, path: str) -> Assignment | None:
        """Return the assignment of a service to a host."""
        return next((entry for entry in self.hosts[host].assignments if entry.path == path), None)

    def has_service(self, path: str) -> bool:
        """Whether any target has a service."""
        return any(entry.path == path for entries in self.targets.values() for entry in entries)

    def undeploys_last(self, path: str) -> bool:
        """Whether hosts keep a service that they lose until other hosts have it."""
        return any(
            entry.undeploys_last for entries in self.targets.values() for entry in entries if entry.path == path
        )


def pushed_tree(text: str, identities: Iterable[Identity]) -> PushedTree | None:
    """Return the targets of a tree's text for these hosts; ``None`` for an invalid tree."""
    parsed = parse("tree.zk", text)
    tree = merge([parsed]).tree
    targets, problems = compile_targets(tree)
    if parsed.problems or problems:
        return None
    try:
        hosts = {identity.id: wanted_for(identity, targets) for identity in identities}
    except TreeError:
        return None
    paths = [path for path in map(path_of, range(SERVICES)) if path in tree.nodes]
    texts = {path: str(tree.nodes[path].get("text")) for path in paths}
    return PushedTree(hosts, plain_targets(targets), texts)


def plain_targets(targets: Targets) -> Targets:
    """Return targets without the digests of properties, which depend on the syncer's settings."""
    return {
        name: tuple(replace(entry, properties=None) for entry in entries)
        for name, entries in targets.items()
        if entries
    }

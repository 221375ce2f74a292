"""The context of completion and hover: a reviewed tree, and the contents of ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.host import is_host_name
from zkdeployment.base.inventory import KnownHost, version_key
from zkdeployment.publishing.targets.services import node_of_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Properties
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.tree.values import Tree


#: The nodes of role controllers are below this path.
_ROLES = "/roles/"


@dataclass(frozen=True, slots=True)
class Live:
    """The contents of ZooKeeper: the known hosts, and the properties of nodes that were read, by path."""

    hosts: tuple[KnownHost, ...] = ()
    nodes: Mapping[str, Properties] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeContext:
    """A reviewed tree and its fleet."""

    reviewed: Review
    live: Live = Live()

    @property
    def tree(self) -> Tree:
        """The tree of the files, without lines that have errors."""
        return self.reviewed.linted.tree

    def services(self) -> list[str]:
        """Return the paths of all services, sorted."""
        return sorted({one.path for one in self._assignments() if not one.path.startswith(_ROLES)})

    def systems(self, path: str) -> list[str]:
        """Return the targets whose operating system a node describes, sorted."""
        names = self.reviewed.compilation.whole.items()
        return sorted(
            node_of_target(name)
            for name, entries in names
            if any(one.system is not None and one.path == path for one in entries)
        )

    def assignments(self, path: str) -> dict[str, Assignment]:
        """Return the assignments of a service by the name of their target."""
        found = {
            name: next((one for one in assignments if one.path == path and one.system is None), None)
            for name, assignments in self.reviewed.compilation.whole.items()
        }
        return {name: one for name, one in sorted(found.items()) if one is not None}

    def hosts_of(self, target: str) -> list[KnownHost]:
        """Return the known hosts that a target selects."""
        return [host for host in self.live.hosts if target in _names_of(host)]

    def targets(self) -> dict[str, str]:
        """Return the names that may be targets, each with its meaning: hosts, roles, and targets of the tree."""
        found: dict[str, str] = {}
        for host in self.live.hosts:
            role = host.identity.role
            if role is not None:
                found[role] = "role"
            else:
                found[host.identity.id] = f"host {host.identity}"
                found.setdefault(host.identity.name, f"host {host.identity}")
        for role in self.tree.children("/roles"):
            found.setdefault(role, "role with a controller")
        for name in self.reviewed.compilation.whole:
            if not name.startswith("/"):
                found.setdefault(name, "host" if is_host_name(name) else "target of another service")
        return dict(sorted(found.items()))

    def host_names(self) -> list[str]:
        """Return the ids of the known hosts, and the hosts that are targets of the tree."""
        named = {host.identity.id for host in self.live.hosts}
        return sorted(named or {name for name in self.reviewed.compilation.whole if not name.startswith("/")})

    def packages(self) -> dict[str, str]:
        """Return the names of packages, each with where it is known from."""
        found: dict[str, str] = {}
        for assignment in self._assignments():
            found[assignment.package] = "package of another service"
            found.update(dict.fromkeys(assignment.patches, "patch of another service"))
        for host in self.live.hosts:
            if host.inventory is not None:
                found.update(dict.fromkeys(host.inventory.deployed_packages, "package on hosts"))
        return dict(sorted(found.items()))

    def versions(self, package: str) -> list[str]:
        """Return the versions of a package in the tree and on hosts, the highest first."""
        found = {one.version for one in self._assignments() if one.package == package and one.version is not None}
        found.update(one.patches[package] for one in self._assignments() if package in one.patches)
        for host in self.live.hosts:
            if host.inventory is not None:
                found.update(installed.version for installed in host.inventory.packages.get(package, ()))
        return sorted(found, key=version_key, reverse=True)

    def _assignments(self) -> Iterator[Assignment]:
        for assignments in self.reviewed.compilation.whole.values():
            yield from (one for one in assignments if one.system is None)


def _names_of(host: KnownHost) -> tuple[str, ...]:
    identity = host.identity
    return (identity.id, identity.name) if identity.role is None else (identity.role,)

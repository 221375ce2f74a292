"""The context of an editor: places in the text of a tree file, and the nodes that a line names.

Lines and columns count from 0, in characters. The text may have errors, because people are typing it.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import LinkError
from zkdeployment.base.host import is_host_name
from zkdeployment.base.inventory import KnownHost, version_key
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import node_of_target
from zkdeployment.tree.links import joined, resolve
from zkdeployment.tree.parse import LIMITS, Line, LineKind, LineReader
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, Tree, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Lookup, Properties
    from zkdeployment.publishing.rules.review import Review

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


#: The property whose value is a list of paths of services.
DEPLOY_AFTER = "deploy_after"

_QUOTED_PATH = re.compile(r"'(/[^']*)'|\"(/[^\"]*)\"")


class Reference(NamedTuple):
    """A name in a line that stands for the node ``path``; ``start`` and ``end`` are its columns."""

    path: str
    start: int
    end: int


def read_line(text: str) -> Line:
    """Return a parsed line; indentation with tabs counts like one with spaces."""
    return LineReader(LIMITS, "\t" if text.startswith("\t") else "").read(text)


def indentation(text: str) -> int:
    """Return the number of blanks at the beginning of a line."""
    return len(text) - len(text.lstrip(" \t"))


def owner_of(lines: Sequence[str], number: int, indent: int) -> str:
    """Return the path of the node above line ``number`` that lines with this indentation belong to.

    The root is the empty path.
    """
    names: list[str] = []
    for position in range(number - 1, -1, -1):
        text = lines[position]
        here = indentation(text)
        if here >= indent or not text.strip() or text.lstrip()[0] != "/":
            continue
        line = read_line(text)
        if line.name is not None:
            names.append(line.name)
            indent = here
        if not here:
            break
    return "".join(f"/{name}" for name in reversed(names))


def node_of(lines: Sequence[str], number: int) -> str:
    """Return the path of the node that a line defines, or that has the property of the line."""
    text = lines[number]
    owner = owner_of(lines, number, indentation(text))
    line = read_line(text)
    return f"{owner}/{line.name}" if line.kind is LineKind.NODE and line.name is not None else owner


def references(lookup: Lookup, lines: Sequence[str], number: int) -> Iterator[Reference]:
    """Yield the nodes that a line names: its own, those in the target of a link, those in ``deploy_after``."""
    text = lines[number]
    line = read_line(text)
    indent = indentation(text)
    if line.kind is LineKind.NODE and line.name is not None:
        yield Reference(node_of(lines, number), indent + 1, indent + 1 + len(line.name))
    elif line.kind is LineKind.LINK and isinstance(line.value, str):
        start = len(text.rstrip(" \t\r")) - len(line.value)
        target = line.value.split()[0]
        yield from names_in_path(lookup, owner_of(lines, number, indent), target, start)
    elif line.kind is LineKind.PROPERTY and line.name == DEPLOY_AFTER:
        for match in _QUOTED_PATH.finditer(text):
            yield from names_in_path(lookup, "", match[1] or match[2], match.start() + 1)


def names_in_path(lookup: Lookup, holder: str, target: str, start: int) -> Iterator[Reference]:
    """Yield each name in a path that begins at column ``start``, with the node that the name stands for.

    A relative path begins at ``holder``. Links above a name are followed; a link in its own place is not.
    """
    steps: list[tuple[str, int]] = [] if target.startswith("/") else [(name, -1) for name in holder.split("/")[1:]]
    for match in re.finditer(r"[^/]+", target):
        if match[0] == "..":
            del steps[-1:]
        elif match[0] != ".":
            steps.append((match[0], start + match.start()))
    above = ""
    for name, column in steps:
        path = f"{above}/{name}"
        if column >= 0:
            yield Reference(path, column, column + len(name))
        try:
            above = resolve(lookup, path)
        except LinkError:
            above = path


def link_target(lookup: Lookup, lines: Sequence[str], number: int) -> tuple[str, str | None] | None:
    """Return the node, and the property (``None`` for a symbolic link), that the link of a line leads to.

    The result is ``None`` if the line has no link, or if the link leads nowhere.
    """
    line = read_line(lines[number])
    if line.kind is not LineKind.LINK or not isinstance(line.value, str) or line.name is None:
        return None
    owner = owner_of(lines, number, indentation(lines[number]))
    target, *named = line.value.split()
    try:
        node = resolve(lookup, joined(owner, target))
    except LinkError:
        return None
    if line.name.endswith(SYMBOLIC_LINK):
        return node, None
    return node, named[0] if named else line.name.removesuffix(PROPERTY_LINK)


def property_line(lines: Sequence[str], node_line: int, name: str) -> int:
    """Return the number of the line that sets a property of the node at ``node_line``; that line by default."""
    outer, inner = indentation(lines[node_line]), None
    for number in range(node_line + 1, len(lines)):
        text = lines[number]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        here = indentation(text)
        if here <= outer:
            break
        inner = here if inner is None else inner
        line = read_line(text)
        if here == inner and line.name in {name, name + PROPERTY_LINK, name + SYMBOLIC_LINK}:
            return number
    return node_line


def service_above(path: str) -> str:
    """Return the service of a ``deploy`` node or of a target below it; other paths are returned unchanged."""
    if path.endswith("/deploy"):
        return parent_path(path)
    return parent_path(parent_path(path)) if parent_path(path).endswith("/deploy") else path

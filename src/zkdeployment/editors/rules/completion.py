"""Completion in tree files, with proposals for a place of the text; and hover, with a description of the place.

A proposal replaces the text from its column to the cursor. Its text may be a snippet of the Language Server
Protocol: ``${1:word}`` is a place that the person fills in, where completion is offered again.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING

from zkdeployment.base.errors import LinkError
from zkdeployment.base.system import SYSTEM
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.editors.rules.tree_text import (
    DEPLOY_AFTER,
    TreeContext,
    indentation,
    link_target,
    owner_of,
    read_line,
    references,
)
from zkdeployment.publishing.targets.systems import is_system
from zkdeployment.tree.links import joined, property_value, resolve
from zkdeployment.tree.parse import LineKind
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, node_name, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Value


class ProposalKind(Enum):
    """The kinds of text that a proposal stands for."""

    NODE = "node"
    PROPERTY = "property"
    VALUE = "value"
    SNIPPET = "snippet"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A completion: ``text`` replaces the line from column ``start`` to the cursor.

    ``order`` sorts proposals, the smallest first. ``is_snippet``: the text has places to fill in.
    """

    label: str
    text: str
    start: int
    kind: ProposalKind = ProposalKind.VALUE
    detail: str = ""
    order: int = 5
    is_snippet: bool = False


@dataclass(frozen=True, slots=True)
class ReadProperty:
    """A property that zkdeployment reads: the snippet of its value, and its meaning."""

    value: str
    meaning: str


#: The properties of a service node that zkdeployment reads.
SERVICE_PROPERTIES = {
    "type": ReadProperty("'${1:package}'", "The package, and perhaps a subtype; short form: /NODE : TYPE."),
    "version": ReadProperty("'${1:1.0}'", "The version of the package, or of a checkout from git."),
    "patches": ReadProperty("['${1:package} ${2:1.0}']", "Packages over the service's package: NAME VERSION."),
    "rerun": ReadProperty(
        "'${1:changed}'", "Whether the deploy script runs at each revision or only after changes."
    ),
    DEPLOY_AFTER: ReadProperty("['${1:/service}']", "Services that all hosts deploy before this one."),
    "undeploy": ReadProperty("'${1:last}'", "Whether a host gives up the service before or after others have it."),
    "registers": ReadProperty("'${1:one}'", "Whether all instances register, or only the active one."),
    "reboot": ReadProperty("'${1:allowed}'", "Allows the deploy script to ask for a reboot of the host."),
}

#: The properties of a node of the type ``system``, which describes the operating system of hosts.
SYSTEM_PROPERTIES = {
    "type": ReadProperty(SYSTEM, "The reserved type of nodes that describe the operating system of hosts."),
    "release": ReadProperty("'${1:2026-11-20}'", "The snapshot of the repositories: the dnf variable release."),
    "update": ReadProperty("'${1:all}'", "The packages that an update changes: a word or a list of patterns."),
    "exclude": ReadProperty("['${1:package*}']", "Patterns of packages that no update changes."),
    "reboot": ReadProperty("'${1:if needed}'", "When hosts reboot after an update."),
    "generation": ReadProperty("${1:2}", "Raise it to update or to reboot again at the same release."),
    "reboot_timeout": ReadProperty(
        "${1:900}", "The seconds until a host that does not come back from its reboot is a failure."
    ),
}

#: The property of a target.
TARGET_PROPERTIES = {"n": ReadProperty("${1:1}", "The number of instances on each host of the target.")}

#: The children of a service node that zkdeployment reads.
SERVICE_CHILDREN = {
    "deploy": "Its children are the hosts and roles that run the service.",
    "providers": "Running instances register here.",
}

#: The values of properties with few values, with the meaning of each.
_CHOICES = {
    "rerun": {"always": "at each revision (default)", "changed": "only if the deployment changed"},
    "undeploy": {"first": "before others have it (default)", "last": "after the hosts that gain it have it"},
    "reboot": {"allowed": "the exit status 102 of the deploy script asks for a reboot"},
    "registers": {"all": "every instance (default)", "one": "the active instance; the others wait to replace it"},
}

#: The values of the properties of system nodes with few values, with the meaning of each.
_SYSTEM_CHOICES = {
    "update": {
        "all": "all packages (default)",
        "security": "packages with security advisories",
        "none": "no packages",
    },
    "reboot": {
        "if needed": "if updated packages ask for it (default)",
        "always": "after each update",
        "never": "not by zkdeployment",
    },
}

_WHOLE_TREE = (
    "/${1:shop}\n"
    "  /${2:web} : ${3:package}\n"
    "    version = '${4:1.0}'\n"
    "    # Running instances register here.\n"
    "    /providers\n"
    "    /deploy\n"
    "      /${5:host}\n"
)

_SERVICE = "/${1:NAME} : ${2:package}\n  version = '${3:1.0}'\n  /providers\n  /deploy\n    /${4:host}\n"

_NODE_TYPE = re.compile(r"\s*/\S+\s*:\s*(?P<typed>.*)")
_NODE = re.compile(r"\s*/\S+(?:\s*:\s*(?P<package>\S+).*)?")
_LINK = re.compile(r"\s*(?P<name>[^\s=]+?)\s*(?P<operator>=>|->)\s*(?P<typed>.*)")
_VALUE = re.compile(r"\s*(?P<name>[^\s=]+?)\s*=(?!>)\s*(?P<typed>.*)")
_LAST_QUOTED = re.compile(r"[^'\"]*$")


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The place where a person types in a tree file; ``before`` is the text of the line up to it."""

    context: TreeContext
    lines: Sequence[str]
    number: int
    before: str

    @property
    def column(self) -> int:
        return len(self.before)

    @property
    def owner(self) -> str:
        """The node that the line belongs to; empty for the root."""
        return owner_of(self.lines, self.number, indentation(self.before))


def tree_proposals(context: TreeContext, lines: Sequence[str], number: int, column: int) -> list[Proposal]:
    """Return the proposals for a place of a tree file, the most likely first."""
    before = lines[number][:column]
    cursor = _Cursor(context, lines, number, before)
    if before.lstrip().startswith("#"):
        return []
    proposals: Iterator[Proposal]
    if match := _NODE_TYPE.fullmatch(before):
        proposals = _types(cursor, match["typed"])
    elif match := _LINK.fullmatch(before):
        proposals = _link_targets(cursor, match["operator"], match["typed"])
    elif match := _VALUE.fullmatch(before):
        proposals = _values(cursor, match["name"], match["typed"])
    elif not before.strip() or re.fullmatch(r"\s*\S*", before):
        proposals = _lines(cursor)
    else:
        return []
    return sorted(proposals, key=lambda proposal: (proposal.order, proposal.label))


def _types(cursor: _Cursor, typed: str) -> Iterator[Proposal]:
    if len(typed.split()) > 1 or typed.endswith(" "):
        return
    for name, detail in cursor.context.packages().items():
        yield Proposal(name, name, cursor.column - len(typed), detail=detail)
    yield Proposal(SYSTEM, SYSTEM, cursor.column - len(typed), detail="the operating system of hosts", order=6)


def _link_targets(cursor: _Cursor, operator: str, typed: str) -> Iterator[Proposal]:
    """Yield the nodes that a link may lead to, one level of the tree at a time, and then the properties."""
    context, owner = cursor.context, cursor.owner
    target, blank, name = typed.partition(" ")
    if blank and operator == PROPERTY_LINK.strip():
        properties = context.tree.properties(_resolved(context, owner, target)) or {}
        for known in properties:
            shown = known.removesuffix(PROPERTY_LINK)
            if not known.endswith(SYMBOLIC_LINK):
                start = cursor.column - len(name)
                yield Proposal(shown, shown, start, ProposalKind.PROPERTY, f"property of {target}")
        return
    if blank:
        return
    above, slash, last = target.rpartition("/")
    # Without a slash, absolute paths are offered: people then choose the top of the path.
    holder = _resolved(context, owner, above or "/") if slash else ""
    for child in context.tree.children(holder):
        text = child if slash else f"/{child}"
        detail = "has nodes below it" if context.tree.children(f"{holder}/{child}") else "node"
        yield Proposal(text, text, cursor.column - len(last), ProposalKind.NODE, detail)


def _resolved(context: TreeContext, owner: str, target: str) -> str:
    """Return the node at a path without links; the path itself if it leads nowhere."""
    path = joined(owner, target)
    try:
        return resolve(context.tree.properties, path) if path.strip("/") else ""
    except LinkError:
        return path.rstrip("/")


#: The properties whose value is a list.
_LISTS = frozenset({DEPLOY_AFTER, "patches"})


def _values(cursor: _Cursor, name: str, typed: str) -> Iterator[Proposal]:
    """Yield the values of a property that zkdeployment reads."""
    inside = typed.count("'") % 2 == 1 or typed.count('"') % 2 == 1
    if name == "n":
        yield Proposal("1", "1", cursor.column - len(typed), detail="instances on each host")
        return
    if typed and not inside and not (name in _LISTS and typed.startswith("[")):
        return
    quoted = _LAST_QUOTED.search(typed) if inside else None
    word = quoted[0] if quoted is not None else ""
    opening = "" if inside else "'"
    for value, detail in _words(cursor, name, word):
        whole = f"{opening}{value}{opening}"
        text = f"[{whole}]" if name in _LISTS and not typed else whole
        yield Proposal(value, text, cursor.column - len(word), detail=detail)


def _words(cursor: _Cursor, name: str, word: str) -> Iterator[tuple[str, str]]:
    """Yield the texts that the value of a property may contain, each with its meaning."""
    context = cursor.context
    choices = _SYSTEM_CHOICES if _is_system(cursor, cursor.owner) else _CHOICES
    if name in choices:
        yield from choices[name].items()
    elif name == "version":
        package = _package_of(cursor)
        for version in context.versions(package):
            yield version, f"version of {package}"
    elif name == "type":
        yield from context.packages().items()
    elif name == DEPLOY_AFTER:
        yield from ((path, "service") for path in context.services() if path != cursor.owner)
    elif name == "patches":
        package, blank, _ = word.partition(" ")
        if blank:
            yield from ((f"{package} {version}", "patch") for version in context.versions(package))
        else:
            yield from context.packages().items()


def _is_system(cursor: _Cursor, path: str) -> bool:
    """Whether a node is a system node, also while its lines are incomplete."""
    return is_system(cursor.context.tree, path) or (path == cursor.owner and _package_of(cursor) == SYSTEM)


def _package_of(cursor: _Cursor) -> str:
    """Return the package in the line of the node that the cursor's line belongs to; empty without one."""
    indent = indentation(cursor.before)
    for text in reversed(cursor.lines[: cursor.number]):
        match = _NODE.fullmatch(text)
        if match is not None and indentation(text) < indent:
            return match["package"] or ""
    return ""


def _lines(cursor: _Cursor) -> Iterator[Proposal]:
    """Yield the nodes and properties that may begin a line."""
    context, owner, start = cursor.context, cursor.owner, indentation(cursor.before)
    if not owner:
        yield Proposal(
            "service", _SERVICE, start, ProposalKind.SNIPPET, "a service at the top", 3, is_snippet=True
        )
        if not any(line.strip() and not line.strip().startswith("#") for line in cursor.lines):
            yield Proposal("tree", _WHOLE_TREE, start, ProposalKind.SNIPPET, "a whole tree", 1, is_snippet=True)
    elif node_name(owner) == "deploy":
        for name, detail in context.targets().items():
            if f"{owner}/{name}" not in context.tree:
                yield Proposal(f"/{name}", f"/{name}", start, ProposalKind.NODE, detail, 2)
    elif node_name(parent_path(owner)) == "deploy":
        if not _is_system(cursor, parent_path(parent_path(owner))):
            yield from _properties(start, frozenset(), TARGET_PROPERTIES)
    else:
        yield from _in_node(cursor, owner, start)


def _new_service(context: TreeContext, owner: str, start: int) -> Proposal:
    """Return the proposal of a service below a node, with a name that is free there."""
    taken = context.tree.children(owner)
    name = next(name for number in count(1) if (name := f"web{number if number > 1 else ''}") not in taken)
    text = _SERVICE.replace("NAME", name)
    return Proposal("service", text, start, ProposalKind.SNIPPET, "a service", 3, is_snippet=True)


def _in_node(cursor: _Cursor, owner: str, start: int) -> Iterator[Proposal]:
    """Yield what a line below a service, a role or another node may begin with."""
    context = cursor.context
    given = context.tree.properties(owner) or {}
    taken = frozenset({name.removesuffix(PROPERTY_LINK) for name in given} | {"type"})
    if owner.startswith("/roles/"):
        yield from _properties(start, taken, _CONTROLLER_PROPERTIES)
    elif _is_system(cursor, owner):
        yield from _properties(start, taken, SYSTEM_PROPERTIES)
        if f"{owner}/deploy" not in context.tree:
            meaning = "Its children are the hosts and roles that the system node describes."
            yield Proposal("/deploy", "/deploy", start, ProposalKind.NODE, meaning, 2)
    elif "type" in given or _package_of(cursor):
        yield from _properties(start, taken, SERVICE_PROPERTIES)
        for name, meaning in SERVICE_CHILDREN.items():
            if f"{owner}/{name}" not in context.tree:
                yield Proposal(f"/{name}", f"/{name}", start, ProposalKind.NODE, meaning, 2)
    else:
        yield _new_service(context, owner, start)


#: The properties of a role's controller that zkdeployment reads.
_CONTROLLER_PROPERTIES = {name: SERVICE_PROPERTIES[name] for name in ("version", "rerun")}


def _properties(start: int, taken: frozenset[str], known: dict[str, ReadProperty]) -> Iterator[Proposal]:
    for name, read in known.items():
        if name not in taken:
            text = f"{name} = {read.value}"
            yield Proposal(name, text, start, ProposalKind.PROPERTY, read.meaning, 1, is_snippet=True)


#: The most hosts that a text lists.
_MOST_HOSTS = 20


def node_under(context: TreeContext, lines: Sequence[str], number: int, column: int) -> str | None:
    """Return the node that the word at a place of a tree file stands for; ``None`` if it stands for no node."""
    for reference in references(context.tree.properties, lines, number):
        if reference.start <= column <= reference.end:
            return reference.path
    return None


def describe_tree_place(context: TreeContext, lines: Sequence[str], number: int, column: int) -> str:
    """Return the description of a place of a tree file; empty where nothing is known."""
    if (node := node_under(context, lines, number, column)) is not None:
        return describe_node(context, node)
    line = read_line(lines[number])
    if line.name is None or line.kind not in {LineKind.PROPERTY, LineKind.LINK}:
        return ""
    owner = owner_of(lines, number, indentation(lines[number]))
    if line.name.endswith(SYMBOLIC_LINK):
        target = link_target(context.tree.properties, lines, number)
        return "" if target is None else describe_node(context, target[0])
    return "\n".join(_property(context, owner, line.name.removesuffix(PROPERTY_LINK), line.kind))


def _property(context: TreeContext, owner: str, name: str, kind: LineKind) -> Iterator[str]:
    yield f"**{name}** of `{owner}`"
    yield ""
    known = TARGET_PROPERTIES if node_name(parent_path(owner)) == "deploy" else SERVICE_PROPERTIES
    if is_system(context.tree, owner):
        known = SYSTEM_PROPERTIES
    if name in known:
        yield f"{known[name].meaning}"
    if kind is LineKind.LINK:
        try:
            yield f"The link leads to the value `{_shown(property_value(context.tree.properties, owner, name))}`."
        except LinkError as error:
            yield f"{error}"
    live = context.live.nodes.get(owner)
    if live is not None:
        yield ""
        if name in live:
            yield f"Published: `{_shown(live[name])}`"
        elif name + PROPERTY_LINK in live:
            yield f"Published: a link to `{_shown(live[name + PROPERTY_LINK])}`"
        else:
            yield "Published: the node has no such property"


def describe_node(context: TreeContext, path: str) -> str:
    """Return the description of a node: its meaning, the hosts that deploy it, and its published properties."""
    return "\n".join(_node(context, path))


def _node(context: TreeContext, path: str) -> Iterator[str]:
    yield f"**{path}**"
    yield ""
    above, name = parent_path(path), node_name(path)
    if path not in context.tree:
        yield "There is no such node in the files."
    elif assignments := context.assignments(path):
        yield from _service(context, path, assignments)
    elif lines := list(_of_system(context, path)):
        yield from lines
    elif name == "deploy" and "type" in (context.tree.properties(above) or ()):
        yield f"The targets of the service `{above}`: each child is the id or the name of a host, or a role."
    elif node_name(above) == "deploy" and parent_path(above):
        yield f"A target of the service `{parent_path(above)}`."
        yield _hosts(context, name)
    elif name == "providers":
        yield f"Running instances of `{above}` register below this node."
    elif above == "/roles":
        yield f"The role {name}: its type is the package of the role's controller."
    elif "type" in (context.tree.properties(path) or ()):
        yield "A service that no host deploys: it has no targets below `deploy`."
    else:
        yield f"A node with {counted(len(context.tree.children(path)), 'node')} below it."
    yield from _published(context, path)


def _service(context: TreeContext, path: str, assignments: Mapping[str, Assignment]) -> Iterator[str]:
    one = next(iter(assignments.values()))
    version = "" if one.version is None else f" {one.version}"
    subtype = "" if one.subtype is None else f", subtype {one.subtype}"
    yield f"A service: package `{one.package}{version}`{subtype}."
    if one.patches:
        yield f"Patches: {', '.join(f'{name} {patch}' for name, patch in sorted(one.patches.items()))}."
    if one.after:
        yield f"Deployed after: {', '.join(one.after)}."
    withheld = {target for service, target in context.reviewed.compilation.withheld if service == path}
    yield ""
    for target, assignment in list(assignments.items())[:_MOST_HOSTS]:
        state = " (withheld: its intent is not instantiated)" if target in withheld else ""
        yield f"- {target}: {counted(assignment.n, 'instance')}{state}. {_hosts(context, target)}"
    if len(assignments) > _MOST_HOSTS:
        yield f"- and {counted(len(assignments) - _MOST_HOSTS, 'further target')}"


def _of_system(context: TreeContext, path: str) -> Iterator[str]:
    """Yield the description of a system node, of its ``deploy`` node or of one of its targets."""
    above, name = parent_path(path), node_name(path)
    if is_system(context.tree, path):
        yield from _system(context, path)
    elif name == "deploy" and is_system(context.tree, above):
        yield f"The targets of `{above}`: each child is the id or the name of a host, or a role."
    elif node_name(above) == "deploy" and is_system(context.tree, parent_path(above)):
        yield f"A target whose operating system `{parent_path(above)}` describes."
        yield _hosts(context, name)


def _system(context: TreeContext, path: str) -> Iterator[str]:
    release = (context.tree.properties(path) or {}).get("release")
    yield "The operating system of hosts" + ("." if release is None else f": release `{_shown(release)}`.")
    yield ""
    targets = context.systems(path)
    for target in targets[:_MOST_HOSTS]:
        yield f"- {target}. {_hosts(context, target)}"
    if len(targets) > _MOST_HOSTS:
        yield f"- and {counted(len(targets) - _MOST_HOSTS, 'further target')}"


def _hosts(context: TreeContext, target: str) -> str:
    """Return the known hosts of a target as a sentence; empty if ZooKeeper was not read."""
    if not context.live.hosts:
        return ""
    hosts = [str(host.identity) for host in context.hosts_of(target)]
    return f"Hosts: {listing(hosts, _MOST_HOSTS)}." if hosts else "No known host has this id, name or role."


def _published(context: TreeContext, path: str) -> Iterator[str]:
    live = context.live.nodes.get(path)
    if live is None:
        return
    yield ""
    yield "Published:" if live else "Published, without properties."
    for name, value in live.items():
        yield f"- {name} {'' if name.endswith((SYMBOLIC_LINK, PROPERTY_LINK)) else '= '}`{_shown(value)}`"


def _shown(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"

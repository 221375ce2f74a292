"""Descriptions of the place under the cursor, as Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.base.errors import LinkError
from zkdeployment.base.text import counted, listing
from zkdeployment.editors.rules.completion import SERVICE_PROPERTIES, SYSTEM_PROPERTIES, TARGET_PROPERTIES
from zkdeployment.editors.rules.tree_text import indentation, link_target, owner_of, read_line, references
from zkdeployment.publishing.targets.systems import is_system
from zkdeployment.tree.links import property_value
from zkdeployment.tree.parse import LineKind
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, node_name, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Value
    from zkdeployment.editors.rules.context import TreeContext

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

"""The content that an approval covers, as values by node and as a digest.

The content of an intent is its description and its subtrees, with all links resolved and all targets included. A
property link counts with the value of its target, wherever the target is. A symbolic link counts with the whole
subtree of its target, because scripts read through it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import field
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import LinkError
from zkdeployment.base.system import SYSTEM
from zkdeployment.base.values import dataclass
from zkdeployment.tree.links import property_source, resolve
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, Tree, is_below, parent_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.json_values import Properties, Value
    from zkdeployment.intents.documents import Intent

#: The node below a service whose children are the targets of the service.
DEPLOY = "deploy"


@dataclass(frozen=True, slots=True)
class IntentContent:
    """The content of an intent.

    ``nodes`` maps each path of its subtrees, including the targets of symbolic links, to the resolved properties.
    ``sources`` has the targets of property links outside of the subtrees, by node and name.
    """

    description: Mapping[str, object]
    nodes: Mapping[str, Properties] = field(default_factory=dict)
    sources: Mapping[tuple[str, str], Value] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of the content, ``sha256:…``, without the places of the targets of property links."""
        value = {**self.description, "nodes": self.nodes}
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def intent_content(intent: Intent, tree: Tree) -> IntentContent:
    """Return the content of an intent in the tree of all files, with layers."""
    reader = _ContentReader(tree, intent.target)
    for paths in intent.apps.values():
        for path in paths:
            reader.add(path)
    return IntentContent(intent.description, reader.nodes, reader.sources)


def service_content(path: str, target: str | None, tree: Tree) -> IntentContent:
    """Return the content of one service without a document, for one target or for all targets."""
    reader = _ContentReader(tree, target)
    reader.add(path)
    return IntentContent({}, reader.nodes, reader.sources)


def listed_services(nodes: Mapping[str, Properties]) -> dict[str, set[str]]:
    """Return the targets that each service node lists, without targets from links."""
    services: dict[str, set[str]] = {}
    for path, properties in nodes.items():
        parent, _, name = path.rpartition("/")
        if name == DEPLOY:
            services.setdefault(parent, set())
        elif parent.endswith(f"/{DEPLOY}"):
            services.setdefault(parent_path(parent), set()).add(name)
        if f"{DEPLOY}{SYMBOLIC_LINK}" in properties:
            services.setdefault(path, set())
    return {path: names for path, names in services.items() if nodes.get(path, {}).get("type") != SYSTEM}


def describe_services(intent: Intent, content: IntentContent) -> list[str]:
    """Return the services that an intent deploys, each with its targets and its numbers of instances."""
    tops = [path for paths in intent.apps.values() for path in paths]
    return [
        f"{path} on {', '.join(_deployed(path, target, content) for target in sorted(targets))}"
        if targets
        else path
        for path, targets in sorted(listed_services(content.nodes).items())
        if any(is_below(path, top) for top in tops)
    ]


def _deployed(path: str, target: str, content: IntentContent) -> str:
    number = content.nodes.get(f"{path}/{DEPLOY}/{target}", {}).get("n", 1)
    return target if number == 1 else f"{target} ({number} instances)"


def changed_paths(old: IntentContent, new: IntentContent) -> tuple[str, ...]:
    """Return the paths of all nodes that differ, sorted, including targets of links outside of the subtrees."""
    sources = old.sources.keys() | new.sources.keys()
    elsewhere = {
        path
        for path, name in sources
        if (path, name) in old.sources
        and (path, name) in new.sources
        and old.sources[path, name] != new.sources[path, name]
    }
    nodes = {path for path in old.nodes.keys() | new.nodes.keys() if old.nodes.get(path) != new.nodes.get(path)}
    return tuple(sorted(nodes | elsewhere))


def changed_keys(old: IntentContent, new: IntentContent) -> tuple[str, ...]:
    """Return the keys of the document whose values differ, sorted."""
    keys = old.description.keys() | new.description.keys()
    return tuple(sorted(key for key in keys if old.description.get(key) != new.description.get(key)))


def content_to_json(content: IntentContent) -> dict[str, Any]:
    """Return a content in the form that publications write."""
    return {
        "description": dict(content.description),
        "nodes": {path: dict(properties) for path, properties in content.nodes.items()},
        "sources": [[path, name, value] for (path, name), value in sorted(content.sources.items())],
    }


def content_from_json(value: Mapping[str, Any]) -> IntentContent:
    """Return the content that ``content_to_json`` encoded."""
    sources = {(path, name): found for path, name, found in value["sources"]}
    return IntentContent(value["description"], value["nodes"], sources)


class _ContentReader:
    """Reads subtrees; a subtree that is the target of several links is read once."""

    def __init__(self, tree: Tree, target: str | None) -> None:
        self._tree = tree
        self._target = target
        self.nodes: dict[str, Properties] = {}
        self.sources: dict[tuple[str, str], Value] = {}

    def add(self, top: str) -> None:
        """Add a subtree, and the target subtrees of its symbolic links."""
        waiting = [top]
        while waiting:
            path = waiting.pop()
            if path in self.nodes or path not in self._tree:
                continue
            self.nodes[path] = dict(self._resolved(path))
            waiting += (f"{path}/{name}" for name in self._children(path))
            waiting += self._linked(path)

    def _children(self, path: str) -> Iterator[str]:
        """Yield the names below a node; below ``deploy`` only the target of the intent, if it has one."""
        is_deploy = self._target is not None and path.endswith("/deploy")
        for name in self._tree.children(path):
            if not is_deploy or name == self._target:
                yield name

    def _resolved(self, path: str) -> Iterator[tuple[str, Value]]:
        """Yield the properties of a node with the values of its links.

        A broken link counts in its written form.
        """
        lookup = self._tree.properties
        for key, value in self._tree.nodes[path].items():
            name = key.removesuffix(PROPERTY_LINK)
            try:
                if key.endswith(SYMBOLIC_LINK):
                    yield key, resolve(lookup, f"{path}/{key.removesuffix(SYMBOLIC_LINK)}")
                elif name == key:
                    yield key, value
                elif name not in self._tree.nodes[path]:
                    node, source, found = property_source(lookup, path, name)
                    self.sources[node, source] = found
                    yield name, found
            except LinkError:
                yield key, value

    def _linked(self, path: str) -> Iterator[str]:
        """Yield the targets of the symbolic links of a node."""
        for key in self._tree.nodes[path]:
            if key.endswith(SYMBOLIC_LINK):
                target = self.nodes[path][key]
                if isinstance(target, str):
                    yield target

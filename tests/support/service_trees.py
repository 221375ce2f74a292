"""Small trees with services, and the assignments that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.publishing.targets.compiler import compile_targets
from zkdeployment.tree.values import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.publication import Targets
    from zkdeployment.tree.values import Properties

#: The properties of a service of the package ``foo``.
FOO: Properties = {"type": "foo", "version": "1.4"}

HOST = Identity("0015", "app1.example.com")

#: The same host with the role ``web``.
WEB = Identity("0015", "app1.example.com", "web")


def tree_of(nodes: Mapping[str, Properties]) -> Tree:
    """Return the tree of these nodes and of all nodes above them, as the text form makes them."""
    completed: dict[str, Properties] = {}
    for path, properties in nodes.items():
        names = path[1:].split("/")
        for end in range(1, len(names)):
            completed.setdefault("/" + "/".join(names[:end]), {})
        completed[path] = properties
    return Tree(completed)


def compile_nodes(nodes: Mapping[str, Properties], **options: Any) -> Targets:
    """Return the targets of ``tree_of(nodes)``, which has no problems."""
    targets, problems = compile_targets(tree_of(nodes), **options)
    assert problems == ()
    return targets


def foo_assignment(path: str = "/who/myfoo", n: int = 1, version: str = "1.4", **fields: Any) -> Assignment:
    """Return an assignment of the package ``foo``."""
    return Assignment(path=path, n=n, package="foo", application="foo", version=version, **fields)


def controller_of_role(path: str = "/roles/web", package: str = "controller", version: str = "1") -> Assignment:
    """Return the assignment of a role controller."""
    return Assignment(path=path, n=1, package=package, application=package, version=version)

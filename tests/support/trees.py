"""Small trees with services and the assignments that follow from them; and arbitrary trees by Hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.names import NameKind, is_name
from zkdeployment.publishing.targets.compiler import compile_targets
from zkdeployment.tree.values import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.json_values import Properties, Value
    from zkdeployment.base.publication import Targets


#: The properties of a service of the package ``foo``.
FOO: Properties = {"type": "foo", "version": "1.4"}

#: The properties of a node that describes the operating system of hosts.
SYSTEM_NODE: Properties = {"type": "system", "release": "2026-11-20"}

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


texts = st.text("ab1 é☃😀\n\t\0\\'\"#=:>-/\u00a0\u2028\x7f", max_size=6)
values: st.SearchStrategy[Value] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
node_names = st.sampled_from(["a", "b", "deploy", "app1.example.com:80", "x=y", "."]) | st.text(
    "abXY01._+:@~=-,#%é日", min_size=1, max_size=8
)
node_names = node_names.filter(lambda name: is_name(NameKind.NODE, name))
property_names = (
    st.sampled_from(["type", "version", "n", "string_value", "a.b", "-", ">"])
    | st.text("abé☃.:'\"\\->#\ufeff", min_size=1, max_size=4)
).filter(lambda name: is_name(NameKind.PROPERTY, name))
targets = st.lists(node_names | st.just("..") | st.just("."), min_size=1, max_size=3).map("/".join)
targets = targets | targets.map("/{}".format)


def _properties() -> st.SearchStrategy[Properties]:
    plain = st.dictionaries(property_names, values, max_size=2)
    symbolic = st.dictionaries(property_names.map("{} ->".format), targets, max_size=1)
    linked = st.dictionaries(
        property_names.map("{} =>".format), targets | st.tuples(targets, property_names).map(" ".join), max_size=1
    )
    return st.tuples(plain, symbolic, linked).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


def _tree(nodes: list[tuple[list[str], Properties]]) -> Tree:
    result: dict[str, Properties] = {}
    for names, properties in nodes:
        paths = ["/" + "/".join(names[:count]) for count in range(1, len(names) + 1)]
        for path in paths:
            result.setdefault(path, {})
        result[paths[-1]] = properties
    return Tree(result)


def trees() -> st.SearchStrategy[Tree]:
    """Return a strategy for every tree that the language can express: each node's parent exists."""
    node = st.tuples(st.lists(node_names, min_size=1, max_size=3), _properties())
    return st.lists(node, max_size=4).map(_tree)

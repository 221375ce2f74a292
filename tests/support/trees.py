"""Arbitrary legal trees, for hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from zkdeployment.model.names import NameKind, is_name
from zkdeployment.model.tree import Tree

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties, Value

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
    found: dict[str, Properties] = {}
    for names, properties in nodes:
        paths = ["/" + "/".join(names[:count]) for count in range(1, len(names) + 1)]
        for path in paths:
            found.setdefault(path, {})
        found[paths[-1]] = properties
    return Tree(found)


def trees() -> st.SearchStrategy[Tree]:
    """Any tree that the language can express: every node's parent is there."""
    node = st.tuples(st.lists(node_names, min_size=1, max_size=3), _properties())
    return st.lists(node, max_size=4).map(_tree)

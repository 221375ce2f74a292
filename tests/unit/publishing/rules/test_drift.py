from __future__ import annotations

from zkdeployment.publishing.rules.changes import drift, has_foreign_children
from zkdeployment.tree.values import LiveNode, Tree, TreeChange

PUBLISHED = Tree({"/a": {"x": 1}, "/a/b": {}, "/a/b/c": {}, "/a/d": {"y": "old"}})
CHANGE = TreeChange(create={"/a/new": {}}, update={"/a": {"x": 2}}, delete=frozenset({"/a/b", "/a/b/c"}))
FOUND = {
    "/a": LiveNode({"x": 1}, 4, children=2),
    "/a/b": LiveNode({}, 0, children=1),
    "/a/b/c": LiveNode({}, 0),
}


def test_nodes_as_published_have_not_drifted():
    assert list(drift(CHANGE, PUBLISHED, FOUND)) == []
    assert not has_foreign_children(CHANGE, PUBLISHED, FOUND)


def test_each_drifted_node_is_named_with_its_difference():
    nodes = {
        "/a": LiveNode({"x": 1.0, "z": "by hand"}, 5),
        "/a/b": LiveNode({}, 0, ephemeral=True),
        "/a/new": LiveNode({}, 0),
    }
    assert list(drift(CHANGE, PUBLISHED, nodes)) == [
        "/a change property x from 1 to 1.0",
        "/a add property z = 'by hand'",
        "/a/b has become an ephemeral node",
        "/a/b/c is gone",
        "/a/new is there already",
    ]


def test_nodes_that_are_not_touched_do_not_count():
    assert list(drift(TreeChange(), PUBLISHED, {})) == []


def test_foreign_children_of_a_deleted_node_are_noticed():
    changed = FOUND | {"/a/b/c": LiveNode({}, 0, children=1)}
    assert has_foreign_children(CHANGE, PUBLISHED, changed)
    assert list(drift(CHANGE, PUBLISHED, changed)) == []

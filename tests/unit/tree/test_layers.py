from hypothesis import given, settings

from support.trees import trees
from zkdeployment.base.names import RESERVED
from zkdeployment.tree.diff import diff
from zkdeployment.tree.layers import desired_tree, lock_roles, merge, overlay
from zkdeployment.tree.parse import ParsedFile, parse
from zkdeployment.tree.values import Tree


def merged(**texts):
    layers = merge([parse(name.replace("_", "."), text) for name, text in texts.items()])
    assert layers.problems == ()
    return layers


def test_zk_files_are_merged_side_by_side():
    layers = merged(a_zk="/a\n  x = 1\n", b_zk="/b\n  /c\n")
    assert layers.tree == Tree({"/a": {"x": 1}, "/b": {}, "/b/c": {}})
    assert layers.tree is layers.base
    assert layers.positions == {"/a": ("a.zk", 1, 1), "/b": ("b.zk", 1, 1), "/b/c": ("b.zk", 2, 3)}


def test_zkx_files_are_layered_property_by_property_after_all_zk_files():
    layers = merged(
        a_zkx="/a\n  x = 2\n  /new\n    y = 1\n/only\n  z = 1\n",
        a_zk="/a : foo\n  x = 1\n  v = 1\n  /kept\n    w = 1\n",
        b_zkx="/a\n  x = 3\n  /kept\n",
    )
    assert layers.tree == Tree(
        {"/a": {"type": "foo", "x": 3, "v": 1}, "/a/kept": {"w": 1}, "/a/new": {"y": 1}, "/only": {"z": 1}}
    )
    assert layers.base == Tree({"/a": {"type": "foo", "x": 1, "v": 1}, "/a/kept": {"w": 1}})
    assert layers.layer == Tree({"/a": {"x": 3}, "/a/new": {"y": 1}, "/only": {"z": 1}, "/a/kept": {}})
    assert layers.positions["/a"] == ("a.zk", 1, 1)
    assert layers.positions["/a/new"] == ("a.zkx", 3, 3)
    assert set(layers.positions) == set(layers.tree)
    assert len(layers.positions) == len(layers.tree)
    assert "/b" not in layers.positions


def test_property_and_property_link_replace_each_other():
    layers = merged(a_zk="/a\n  x = 1\n  y => /b\n  x -> /c\n", a_zkx="/a\n  x => /b\n  y = 2\n")
    assert layers.tree.nodes["/a"] == {"x =>": "/b", "y": 2, "x ->": "/c"}
    assert layers.links == {("/a", "x =>"): ("a.zkx", 2, 3), ("/a", "x ->"): ("a.zk", 4, 3)}


def test_same_top_level_node_in_two_zk_files_is_an_error_naming_both_places():
    layers = merge([parse("a.zk", "/a\n  x = 1\n/b\n"), parse("b.zk", "/c\n\n/a\n  y = 1\n  l -> /c\n  /d\n")])
    (problem,) = layers.problems
    assert str(problem) == "b.zk:3:1: the top-level node /a is also in a.zk:1; only one .zk file may have it"
    assert problem.path == "/a"
    assert layers.tree == Tree({"/a": {"x": 1}, "/b": {}, "/c": {}})
    assert "/a/d" not in layers.positions
    assert layers.links == {}


def test_live_top_level_nodes_of_zk_files_become_equal_to_the_files():
    live = Tree({"/a": {"old": 1}, "/a/gone": {}, "/foreign": {"x": 1}, "/foreign/sub": {}})
    assert desired_tree(live, merged(a_zk="/a\n  new = 1\n  /b\n")) == Tree(
        {"/a": {"new": 1}, "/a/b": {}, "/foreign": {"x": 1}, "/foreign/sub": {}}
    )


def test_top_level_nodes_of_zkx_files_alone_are_layered_over_the_live_nodes():
    live = Tree({"/a": {"x": 1, "y": 1}, "/a/b": {"z": 1}, "/a/c": {}})
    layers = merged(a_zkx="/a\n  x = 2\n  /b\n  /d\n")
    assert desired_tree(live, layers) == Tree({"/a": {"x": 2, "y": 1}, "/a/b": {"z": 1}, "/a/c": {}, "/a/d": {}})


def test_nodes_with_ephemeral_nodes_below_them_stay():
    live = Tree({"/a": {"x": 1}, "/a/s": {"y": 1}, "/a/s/providers": {"z": 1}, "/a/gone": {}})
    wanted = desired_tree(live, merged(a_zk="/a\n  x = 2\n"), pinned=frozenset({"/a/s/providers", "/elsewhere"}))
    assert wanted == Tree({"/a": {"x": 2}, "/a/s": {"y": 1}, "/a/s/providers": {"z": 1}})


def test_a_layer_changes_nodes_with_ephemeral_nodes_below_them():
    live = Tree({"/a": {}, "/a/providers": {"z": 1}})
    layers = merged(a_zk="/a\n", a_zkx="/a\n  /providers\n    y = 2\n")
    for pinned in ((), {"/a/providers"}):
        assert desired_tree(live, layers, pinned=pinned) == Tree({"/a": {}, "/a/providers": {"y": 2}})


def test_reserved_nodes_are_never_written():
    layers = merged(a_zk="/role-locks\n  /web\n/roles\n  /db\n", a_zkx="/role-locks\n  /x\n")
    assert desired_tree(Tree({}), layers) == Tree({"/roles": {}, "/roles/db": {}})
    assert lock_roles(layers.tree) == {"web", "db", "x"}
    assert desired_tree(Tree({"/hosts": {}}), layers, pinned={"/hosts"}) == Tree({"/roles": {}, "/roles/db": {}})


@settings(max_examples=40)
@given(trees(), trees())
def test_the_desired_tree_has_the_new_nodes_and_the_nodes_of_others(live, text):
    layers = merge([ParsedFile("a.zk", text)])
    tops = {path.split("/")[1] for path in text}
    wanted = desired_tree(live, layers)
    foreign = {path: node for path, node in live.nodes.items() if path.split("/")[1] not in tops}
    assert wanted == Tree({**foreign, **text.nodes})
    assert not diff(wanted, desired_tree(wanted, layers))
    assert tops.isdisjoint(RESERVED)


@settings(max_examples=30)
@given(trees(), trees(), trees())
def test_layering_is_associative(base, first, two):
    assert overlay(overlay(base, first), two) == overlay(base, overlay(first, two))


@settings(max_examples=30)
@given(trees())
def test_a_tree_layered_over_itself_or_over_an_empty_tree_is_unchanged(tree):
    assert overlay(tree, tree) == tree
    assert overlay(tree, Tree({})) == tree
    assert overlay(Tree({}), tree) == tree

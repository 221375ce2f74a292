"""Changes of the live tree by hand."""

import pytest

from zkdeployment.base.errors import LinkError, RefusedError, TreeError
from zkdeployment.tree.diff import link_change, removal_change
from zkdeployment.tree.values import LiveTree, Tree, TreeChange

NODES = {
    "/a": {"x": 1, "link ->": "/b"},
    "/a/b": {},
    "/a/b/c": {},
    "/a/bb": {},
    "/b": {},
    "/run": {},
    "/run/providers": {},
}
LIVE = LiveTree(Tree(NODES), pinned=frozenset({"/run", "/run/providers"}))


@pytest.mark.parametrize("path", ["/a/b", "/a/b/"])
def test_a_node_is_removed_with_its_descendants_only(path):
    assert removal_change(LIVE, path) == TreeChange(delete=frozenset({"/a/b", "/a/b/c"}))


def test_a_link_is_removed_without_its_target():
    assert removal_change(LIVE, "/a/link") == TreeChange(update={"/a": {"x": 1}})


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/nowhere", TreeError, "there is no node /nowhere"),
        ("/a/link/c", TreeError, "there is no node /a/link/c"),
        ("a", TreeError, "expected a path that begins with /"),
        ("/run", RefusedError, "registered below /run"),
        ("/hosts/h1", RefusedError, "/hosts/h1 cannot be changed manually"),
        ("/zkdeployment", RefusedError, "cannot be changed manually"),
        ("/", RefusedError, "expected the path of a node"),
        ("", RefusedError, "expected the path of a node"),
    ],
)
def test_other_removals_are_refused(path, error, message):
    with pytest.raises(error, match=message):
        removal_change(LIVE, path)


@pytest.mark.parametrize(
    ("target", "link", "name", "held"),
    [
        ("/b", "/a/new", "new", "/b"),
        ("/a/bb", "/b/", "bb", "/a/bb"),
        ("../b", "/a/new", "new", "../b"),
        ("/a/link", "/a/new", "new", "/a/link"),
    ],
)
def test_a_link_is_added_to_the_node_that_holds_it(target, link, name, held):
    holder = link.rpartition("/")[0]
    assert link_change(LIVE.tree, target, link) == TreeChange(
        update={holder: {**NODES[holder], f"{name} ->": held}}
    )


def test_an_existing_link_is_replaced():
    assert link_change(LIVE.tree, "/a/bb", "/a/link") == TreeChange(update={"/a": {"x": 1, "link ->": "/a/bb"}})


@pytest.mark.parametrize(
    ("target", "link", "message"),
    [
        ("/nowhere", "/a/new", "there is no node /nowhere"),
        ("/a/new", "/a/new", "links in a circle"),
        ("/b", "/nowhere/new", "there is no node /nowhere that could hold the link new"),
        ("/b", "/new", "there is no node / that could hold the link new"),
        ("/b", "/a/x y", "not a property name"),
        ("/b", "new", "expected a path that begins with /"),
        ("/b", "/a/", "there is a node /a/b: it would hide the link"),
    ],
)
def test_impossible_links_are_refused(target, link, message):
    with pytest.raises((TreeError, LinkError), match=message):
        link_change(LIVE.tree, target, link)


def test_links_in_reserved_nodes_are_refused():
    with pytest.raises(RefusedError, match="cannot be changed manually"):
        link_change(LIVE.tree, "/b", "/hosts/new")

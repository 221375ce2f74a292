"""Changes of the live tree by hand."""

import pytest

from zkdeployment.errors import LinkError, RefusedError, TreeError
from zkdeployment.model.publication import LiveTree, TreeChange
from zkdeployment.model.tree import Tree
from zkdeployment.tree.edits import link_change, removal_change

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
def test_a_node_goes_with_all_below_it_and_nothing_beside_it(path):
    assert removal_change(LIVE, path) == TreeChange(delete=frozenset({"/a/b", "/a/b/c"}))


def test_a_link_goes_without_what_it_leads_to():
    assert removal_change(LIVE, "/a/link") == TreeChange(update={"/a": {"x": 1}})


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("/nowhere", TreeError, "there is no node /nowhere"),
        ("/a/link/c", TreeError, "there is no node /a/link/c"),
        ("a", TreeError, "must start with /"),
        ("/run", RefusedError, "registered below /run"),
        ("/hosts/h1", RefusedError, "/hosts/h1 is not to be changed by hand"),
        ("/zkdeployment", RefusedError, "not to be changed"),
        ("/", RefusedError, "expected the path of a node"),
        ("", RefusedError, "expected the path of a node"),
    ],
)
def test_what_may_not_be_removed(path, error, words):
    with pytest.raises(error, match=words):
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


def test_a_link_that_is_there_is_changed():
    assert link_change(LIVE.tree, "/a/bb", "/a/link") == TreeChange(update={"/a": {"x": 1, "link ->": "/a/bb"}})


@pytest.mark.parametrize(
    ("target", "link", "words"),
    [
        ("/nowhere", "/a/new", "there is no node /nowhere"),
        ("/a/new", "/a/new", "links in a circle"),
        ("/b", "/nowhere/new", "there is no node /nowhere that could hold the link new"),
        ("/b", "/new", "there is no node / that could hold the link new"),
        ("/b", "/a/x y", "not a property name"),
        ("/b", "new", "must start with /"),
        ("/b", "/a/", "there is a node /a/b: it would hide the link"),
    ],
)
def test_links_that_cannot_be(target, link, words):
    with pytest.raises((TreeError, LinkError), match=words):
        link_change(LIVE.tree, target, link)


def test_no_link_is_put_into_reserved_nodes():
    with pytest.raises(RefusedError, match="not to be changed by hand"):
        link_change(LIVE.tree, "/b", "/hosts/new")

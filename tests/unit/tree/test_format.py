import pytest
from hypothesis import given

from support.trees import trees
from zkdeployment.tree.diff import diff, format_property, format_tree, format_value
from zkdeployment.tree.parse import parse
from zkdeployment.tree.values import Tree


def test_the_order_in_the_text_is_canonical():
    tree = Tree(
        {
            "/b": {},
            "/a/d": {"x": None},
            "/a/c": {"n": 2},
            "/a/c/e": {},
            "/a": {"y ->": "/b", "z": "it's\n", "a =>": "/b x", "type": "foo main", "version": "1.0", "b": True},
        }
    )
    assert (
        format_tree(tree)
        == """\
/a : foo main
  b = True
  version = '1.0'
  z = "it's\\n"
  a => /b x
  y -> /b
  /c
    n = 2
    /e
  /d
    x = None
/b
"""
    )
    assert format_tree(Tree({})) == ""


@pytest.mark.parametrize("type_", ["", " a", "a ", "a\nb", "a\u00a0b", "\u2003", 1, None, ["a"], True])
def test_a_type_that_does_not_fit_the_short_form_is_written_as_a_property(type_):
    tree = Tree({"/a": {"type": type_}})
    text = format_tree(tree)
    assert text.startswith("/a\n  type = ")
    assert not diff(parse("a.zk", text).tree, tree)


@pytest.mark.parametrize("type_", ["foo", "foo-1.4 main", ": x", "x : y", "= 1", "#", "é", "a -> b", "'quoted'"])
def test_other_types_are_written_after_the_name(type_):
    tree = Tree({"/a": {"type": type_}})
    assert format_tree(tree) == f"/a : {type_}\n"
    assert parse("a.zk", format_tree(tree)).tree == tree


def test_values_and_properties_are_written_as_in_a_text():
    assert format_value({"b": [1, 2.0, None], "a": "é\t"}) == "{'a': 'é\\t', 'b': [1, 2.0, None]}"
    assert format_property("x =>", "/a y") == "x => /a y"
    assert format_property("x", "/a") == "x = '/a'"


def test_live_tree_may_be_deeper_than_any_text():
    path = ""
    nodes = {}
    for _ in range(2000):
        path += "/n"
        nodes[path] = {}
    assert format_tree(Tree(nodes)).count("/n\n") == 2000


@given(trees())
def test_the_text_of_a_tree_parses_as_the_same_tree(tree):
    text = format_tree(tree)
    parsed = parse("a.zk", text)
    assert parsed.problems == ()
    assert parsed.tree == tree
    assert not diff(parsed.tree, tree)
    assert format_tree(parsed.tree) == text


def test_names_and_targets_that_the_language_does_not_allow_stay_on_their_lines():
    nodes = {
        "/a\n\u202e": {"x\n/b : evil": 1, "l\x1b ->": "/c\n/d", "type": "t"},
        "/a\n\u202e/\x9b": {},
    }
    assert format_tree(Tree(nodes)) == ("/a\\n\\u202e : t\n  x\\n/b : evil = 1\n  l\\x1b -> /c\\n/d\n  /\\x9b\n")

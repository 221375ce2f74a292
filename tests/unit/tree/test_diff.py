import pytest
from hypothesis import given, settings

from support.trees import trees
from zkdeployment.tree.diff import apply_change, describe_change, diff, stored_alike
from zkdeployment.tree.values import Tree, TreeChange, parent_path


@settings(max_examples=60)
@given(trees(), trees())
def test_applying_the_difference_gives_the_new_tree(old, new):
    change = diff(old, new)
    result = apply_change(old, change)
    assert result == new
    assert not diff(result, new)
    assert set(result) == set(new)
    assert bool(change) == bool(list(describe_change(change, old)))
    assert all(parent_path(path) in {"", *new.nodes} for path in [*change.create, *change.update])


@settings(max_examples=30)
@given(trees())
def test_a_tree_does_not_differ_from_itself(tree):
    assert not diff(tree, Tree({path: dict(properties) for path, properties in tree.nodes.items()}))


@pytest.mark.parametrize(
    ("first", "other"),
    [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ([1], [True]), ({"a": 0}, {"a": 0.0}), ("1", 1), (None, False)],
)
def test_values_with_different_json_differ(first, other):
    assert not stored_alike(first, other)
    assert diff(Tree({"/a": {"x": first}}), Tree({"/a": {"x": other}})).update == {"/a": {"x": other}}


def test_order_of_keys_makes_no_difference():
    assert stored_alike({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1})


def test_change_is_described_line_by_line():
    old = Tree(
        {
            "/a": {"same": 1, "x": 1, "y": "z", "l ->": "/b", "k ->": "/b", "p =>": "/b"},
            "/a-b": {},
            "/a/gone": {"x": 1},
            "/a/gone/below": {},
        }
    )
    new = Tree(
        {
            "/a": {"same": 1, "x": True, "l ->": "/c", "m ->": "/b", "q =>": "/b", "long": "v" * 300},
            "/a-b": {},
            "/a/new": {"type": "foo", "n": 2},
            "/a/new/below": {},
        }
    )
    assert list(describe_change(diff(old, new), old)) == [
        "/a remove link k -> /b",
        "/a change link l -> from '/b' to '/c'",
        f"/a add property long = '{'v' * 189}...",
        "/a add link m -> /b",
        "/a remove property p => /b",
        "/a add property q => /b",
        "/a change property x from 1 to True",
        "/a remove property y = 'z'",
        "delete /a/gone",
        "delete /a/gone/below",
        "add /a/new",
        "/a/new add property n = 2",
        "/a/new add property type = 'foo'",
        "add /a/new/below",
    ]


def test_an_empty_change_has_no_description():
    assert list(describe_change(TreeChange(), Tree({}))) == []

import json

from hypothesis import given
from hypothesis import strategies as st

from support.builders import make_package
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.tree.values import Tree, node_name, parent_path, properties_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=2), values, max_size=3),
    max_leaves=5,
)


def test_trees_are_equal_if_their_nodes_are_in_any_order():
    a = Tree({"/a": {}, "/a/b": {"x": 1}})
    b = Tree({"/a/b": {"x": 1}, "/a": {}})
    assert a == b
    assert hash(a) == hash(b)
    assert a != Tree({"/a": {}})
    assert a != {"/a": {}}
    assert repr(Tree({"/a": {}})) == "Tree({'/a': {}})"


def test_tree_knows_nodes_and_sorted_children():
    tree = Tree({"/b": {}, "/a": {"x": 1}, "/a/d": {}, "/a/c": {}})
    assert list(tree.children("")) == ["a", "b"]
    assert list(tree.children("/a")) == ["c", "d"]
    assert list(tree.children("/b")) == []
    assert tree.properties("/a") == {"x": 1}
    assert tree.properties("/x") is None
    assert "/a" in tree
    assert len(tree) == 4
    assert list(tree) == ["/b", "/a", "/a/d", "/a/c"]


def test_a_path_splits_into_parent_and_name():
    assert parent_path("/a/b") == "/a"
    assert parent_path("/a") == ""
    assert node_name("/a/b") == "b"


def test_deployment_names_its_marker_and_its_lock():
    deployment = Deployment("/who/myfoo", 0)
    assert deployment.marker_name == "who:myfoo.0.deployed"
    assert deployment.lock_name == "who,myfoo"
    assert str(deployment) == "/who/myfoo 0"


def test_assignment_lists_its_deployments_and_its_published_form():
    assignment = Assignment("/who/myfoo", 2, "foo", "foo", "bar", "1.0", {"fix": "2"})
    assert assignment.deployments == (Deployment("/who/myfoo", 0), Deployment("/who/myfoo", 1))
    assert assignment.to_json() == {
        "path": "/who/myfoo",
        "n": 2,
        "package": "foo",
        "application": "foo",
        "subtype": "bar",
        "version": "1.0",
        "patches": ["fix 2"],
    }


def test_a_package_is_spelled_as_dnf_spells_it():
    assert str(make_package("foo", "1.0")) == "foo-1.0-1.noarch"
    assert make_package("foo", "1.0", epoch=2).nevra == "foo-2:1.0-1.noarch"


def test_the_text_of_a_problem_begins_with_its_place():
    assert str(Problem("bad", file="a.zk", line=3, column=5)) == "a.zk:3:5: bad"
    assert str(Problem("bad", path="/a")) == "/a: bad"
    assert str(Problem("/a is bad", path="/a")) == "/a is bad"
    assert str(Problem("odd", severity=Severity.WARNING)) == "warning: odd"


def test_changed_parts_are_those_that_are_another_object_or_missing_in_one_of_two_trees():
    shared, replaced = {"/a": {}}, {"/b": {"x": 1}}
    before = Tree.of_parts({"/a": shared, "/b": replaced, "/c": {"/c": {}}})
    after = Tree.of_parts({"/a": shared, "/b": dict(replaced), "/d": {"/d": {}}})
    assert after.changed_parts(before) == before.changed_parts(after) == {"/b", "/c", "/d"}
    assert after.changed_parts(after) == frozenset()


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.randoms())
def test_the_digest_of_properties_does_not_depend_on_their_order_or_on_storage(properties, chance):
    shuffled = list(properties.items())
    chance.shuffle(shuffled)
    assert properties_digest(json.loads(json.dumps(dict(shuffled)))) == properties_digest(properties)


def test_the_digest_of_properties_tells_values_apart_that_are_equal_in_python_alone():
    digests = {properties_digest({"n": value}) for value in (1, 1.0, True, "1", [1], None)}
    assert len(digests) == 6
    assert properties_digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.source_files import SourceFile
from zkdeployment.tree.lint import lint
from zkdeployment.tree.values import Tree


def check(**texts):
    return lint([SourceFile(name.replace("_", "."), text.encode()) for name, text in texts.items()])


def complaints(**texts):
    return [str(problem) for problem in check(**texts).problems]


def test_good_files_have_no_problems():
    problems = check(
        a_zk="/a : foo\n  version => /b\n  link -> ../b\n",
        b_zk="/b\n  version = '1'\n/role-locks\n  /web\n/roles\n  /web : ctl\n    version = '1'\n",
        c_zkx="/a\n  /deploy\n    /h1\n",
    )
    assert problems.problems == ()
    assert problems.positions["/a/deploy/h1"] == ("c.zkx", 3, 5)
    assert problems.tree.properties("/a") == {"type": "foo", "version =>": "/b", "link ->": "../b"}
    assert "/b" in problems.tree


def test_other_files_are_ignored():
    problems = check(a_zk="/a", README_rst="hello", b_zk_orig="x", zk="y")
    assert problems.problems == ()
    assert problems.tree == Tree({"/a": {}})


def test_no_tree_file_at_all_is_an_error():
    assert complaints() == ["no tree file found: expected at least one *.zk or *.zkx"]
    assert complaints(README_rst="hello") == ["no tree file found: expected at least one *.zk or *.zkx"]


@pytest.mark.parametrize("name", ["hosts", "hosts-lock", "agent-locks", "zookeeper", "zkdeployment"])
@pytest.mark.parametrize("file", ["a_zk", "a_zkx"])
def test_reserved_top_level_nodes_are_refused(name, file):
    (problems,) = complaints(**{file: f"/ok\n/{name}\n  /x\n"})
    assert problems == f"a.{file[2:]}:2:1: /{name} is written by zkdeployment itself; a tree file must not have it"


def test_reserved_names_below_the_top_level_are_allowed():
    assert complaints(a_zk="/a\n  /hosts\n  /zkdeployment\n") == []


def test_only_bare_role_locks_may_be_written():
    assert complaints(a_zk="/role-locks\n  x = 1\n  /web\n  /db\n    y = 1\n  /lb\n    /lr-0\n  /.x\n") == [
        "a.zk:1:1: /role-locks must have no properties",
        "a.zk:4:3: /role-locks/db must be a bare node: no properties, nothing below it",
        "a.zk:6:3: /role-locks/lb must be a bare node: no properties, nothing below it",
        (
            "a.zk:8:3: /role-locks/.x: '.x' is not a role (expected at most 128 letters from a to z, digits,"
            " blanks and . _ + : @ ~ -, beginning with a letter, a digit or _)"
        ),
    ]


LINKS = [
    ("/a\n  l -> /b/c\n/b\n", "a.zk:2:3: /a/l -> /b/c: there is no node /b/c"),
    ("/a\n  l -> b\n", "a.zk:2:3: /a/l -> /a/b: there is no node /a/b"),
    ("/a\n  l -> ../../b\n", "a.zk:2:3: /a/../../b leads out of the tree"),
    ("/a\n  l -> /a/l\n", "a.zk:2:3: links in a circle: /a/l -> /a/l"),
    (
        "/a\n  l -> /elsewhere/x\n",
        "a.zk:2:3: warning: /a/l -> /elsewhere/x: there is no node /elsewhere in the files checked",
    ),
    ("/a\n  x => /elsewhere\n", "a.zk:2:3: /a: warning: there is no node /elsewhere in the files checked"),
    ("/a\n  x => /b\n/b\n", "a.zk:2:3: /a x -> /b x: /b has no property x"),
    ("/a\n  x => /b y\n/b\n  y => /a x\n", None),
    ("/a\n  l -> /b\n  /l\n/b\n", "a.zk:2:3: /a: warning: the link l -> is hidden by the node a/l"),
    ("/a\n  x => /b\n  x = 1\n/b\n  x = 2\n", "a.zk:2:3: /a: warning: the link x => is hidden by the property x"),
]


@pytest.mark.parametrize(("text", "expected"), LINKS)
def test_links_are_followed(text, expected):
    problems = complaints(a_zk=text)
    if expected is None:
        assert len(problems) == 2
        assert all("links in a circle" in line for line in problems)
    else:
        assert problems == [expected]


def test_a_broken_link_into_a_node_that_is_only_layered_is_a_warning():
    (problems,) = complaints(a_zk="/a\n  x => /b/c v\n", b_zkx="/b\n  y = 1\n")
    assert problems == "a.zk:2:3: /a: warning: there is no node /b/c in the files checked"


def test_link_that_a_layer_replaced_is_not_followed():
    assert complaints(a_zk="/a\n  x => /a nothing\n", a_zkx="/a\n  x = 1\n") == []


def test_a_link_to_a_node_with_errors_is_not_reported():
    missing, unread = complaints(a_zk="/a\n  x => /b v\n  l -> /b/c d\n/b\n  v = 1.2.3\n")
    assert missing == "a.zk:3:8: /a: expected the path of a node after ->"
    assert unread.startswith("a.zk:5:10: /b: cannot read 1.2.3")


def test_all_problems_of_all_files_are_sorted_by_place():
    problems = check(b_zk="/b\n  x = y\n/a\n", a_zk="/a\n  l -> /b/x\n  m = n\n", c_zkx="hello\n")
    assert [(problem.file, problem.line) for problem in problems.problems] == [
        ("a.zk", 3),
        ("b.zk", 2),
        ("b.zk", 3),
        ("c.zkx", 1),
    ]
    places = [(problem.file, problem.line, problem.column) for problem in problems.problems]
    assert places == sorted(places)


@given(st.lists(st.tuples(st.sampled_from(["a.zk", "b.zk", "c.zkx", "d"]), st.binary(max_size=40)), max_size=4))
def test_lint_never_raises(files):
    problems = lint([SourceFile(name, content) for name, content in files])
    assert set(problems.positions) == set(problems.tree)

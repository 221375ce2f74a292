from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zkdeployment.tree.parse import LIMITS, LineReader, TextLimits, parse, parse_bytes
from zkdeployment.tree.values import Tree, parent_path


def nodes(text):
    parsed = parse("a.zk", text)
    assert parsed.problems == ()
    return dict(parsed.tree.nodes)


def complaints(text, **limits):
    problems = parse("a.zk", text, limits=TextLimits(**limits)).problems
    assert all(problem.file == "a.zk" for problem in problems)
    return [(problem.line, problem.column, problem.message) for problem in problems]


# The result of zc.zk 2.1.0 for the same text.
AS_ZC_ZK = [
    ("", {}),
    ("\n  \n# comment\n   # another\n", {}),
    ("/a", {"/a": {}}),
    ("/a\n/b\n", {"/a": {}, "/b": {}}),
    ("  /a\n    /b\n  /c\n", {"/a": {}, "/a/b": {}, "/c": {}}),
    ("/a\n /b\n  /c\n /d", {"/a": {}, "/a/b": {}, "/a/b/c": {}, "/a/d": {}}),
    ("/a\n      /b\n        /c\n/d\n  /e", {"/a": {}, "/a/b": {}, "/a/b/c": {}, "/d": {}, "/d/e": {}}),
    ("/a : foo", {"/a": {"type": "foo"}}),
    ("/a : foo bar baz", {"/a": {"type": "foo bar baz"}}),
    ("/a: foo", {"/a": {"type": "foo"}}),
    ("/a :foo", {"/a": {"type": "foo"}}),
    ("/a:foo", {"/a:foo": {}}),
    ("/a:b c", {"/a": {"type": "b c"}}),
    ("/a : b : c", {"/a": {"type": "b : c"}}),
    ("/a : b = c -> d", {"/a": {"type": "b = c -> d"}}),
    ("/a : b # c", {"/a": {"type": "b # c"}}),
    ("/1.2.3.4:80 : foo", {"/1.2.3.4:80": {"type": "foo"}}),
    ("/a\n  type = 'foo'", {"/a": {"type": "foo"}}),
    (
        "/test\n  a=1\n  b      =1\n  c=      1\n  ad->/x\n  af          ->/x\n  ae->         /x\n",
        {"/test": {"a": 1, "b": 1, "c": 1, "ad ->": "/x", "af ->": "/x", "ae ->": "/x"}},
    ),
    ("/a\n  x => /b y\n  z=>../b\n", {"/a": {"x =>": "/b y", "z =>": "../b"}}),
    ("/a\n  b -> /b/\n  x => ../b/ y\n", {"/a": {"b ->": "/b/", "x =>": "../b/ y"}}),
    ("/a\n  x = 1 # one", {"/a": {"x": 1}}),
    ("/a\n  x = 1\n  x => /b\n", {"/a": {"x": 1, "x =>": "/b"}}),
    ("/a\n  b -> /c\n  /b\n", {"/a": {"b ->": "/c"}, "/a/b": {}}),
    ("/a\n  /b\n    y = 2\n  x = 1\n", {"/a": {"x": 1}, "/a/b": {"y": 2}}),
    ("/a\n  # comment\n # comment\n  x = 1\n", {"/a": {"x": 1}}),
    ("/a\n\tx = 1\n\t/b\n\t\ty = 2\n", {"/a": {"x": 1}, "/a/b": {"y": 2}}),
    ("/a   \n  x = 'b'  \t \n", {"/a": {"x": "b"}}),
    (
        """
/lb : ipvs
  /pools
    /cms
      # fixed
      address = '1.2.3.4:80'
      providers -> /cms/providers

/cms : z4m cms
  threads = 3
  /providers
""",
        {
            "/lb": {"type": "ipvs"},
            "/lb/pools": {},
            "/lb/pools/cms": {"address": "1.2.3.4:80", "providers ->": "/cms/providers"},
            "/cms": {"type": "z4m cms", "threads": 3},
            "/cms/providers": {},
        },
    ),
]


@pytest.mark.parametrize(("text", "expected"), AS_ZC_ZK)
def test_texts_have_the_meaning_of_zc_zk(text, expected):
    assert nodes(text) == expected


# A line below /a, the result of zc.zk 2.1.0, and the result here: the manual's list, in its order.
NOT_AS_ZC_ZK = [
    ("x='a=>b'", {"/a": {"x='a =>": "b'"}}, {"/a": {"x": "a=>b"}}),
    ("x=1=2", {"/a": {"x=1": 2}}, "invalid syntax"),
    ("x->y = 1", {"/a": {"x->y": 1}}, "expected the path of a node after ->"),
    ("/a=1", {"/a": {"/a": 1}}, {"/a": {}, "/a/a=1": {}}),
    ("/a = 1", {"/a": {"/a": 1}}, "expected /NODE"),
    ("/a -> /b", {"/a": {"/a ->": "/b"}}, "expected /NODE"),
    ("x => /a y /z", {"/a": {"x =>": "/a y"}}, "expected the path of a node and, if it is another, a property"),
    ("x => = '/a'", {"/a": {"x =>": "= '/a'"}}, "'=' is not a path"),
    ("x = 7/2", {"/a": {"x": 3}}, {"/a": {"x": 3.5}}),
    (r"x = '\u00e9'", {"/a": {"x": r"\u00e9"}}, {"/a": {"x": "é"}}),
    ("x = 010", {"/a": {"x": 8}}, "leading zeros"),
    ("x = 10L", {"/a": {"x": 10}}, "invalid decimal literal"),
    ("x = `1`", {"/a": {"x": "1"}}, "invalid syntax"),
    ("x = 1e999", {"/a": {"x": float("inf")}}, "a number is too large"),
    ("x = {'a': 1, 'a': 2}", {"/a": {"x": {"a": 2}}}, "duplicate key 'a'"),
    ("/b\n\t\t/c", {"/a": {}, "/a/b": {}, "/a/c": {}}, "tabs and spaces are mixed"),
    ("/b\n  x = 1\n    /c", {"/a": {"x": 1}, "/a/b": {}, "/a/b/c": {}}, "only nodes can have indented lines"),
    ("\f\n  x = 1", {"/a": {"x": 1}}, "the character U+000C is not allowed"),
    ("/b/c", {"/a": {}, "/a/b/c": {}}, "'b/c' is a path: expected one name"),
]


@pytest.mark.parametrize(("line", "there", "here"), NOT_AS_ZC_ZK)
def test_differences_from_zc_zk_are_known(line, there, here):
    parsed = parse("a.zk", f"/a\n  {line}\n")
    if isinstance(here, str):
        (problem,) = parsed.problems
        assert here in problem.message
    else:
        assert (parsed.problems, dict(parsed.tree.nodes)) == ((), here)
    assert here != there


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x='a=>b'", {"x": "a=>b"}),
        ("x = 'a -> b'", {"x": "a -> b"}),
        ("x -> a=b", {"x ->": "a=b"}),
        ("a-b = 1", {"a-b": 1}),
        ("a-b>c = 1", {"a-b>c": 1}),
        ("a- -> /b", {"a- ->": "/b"}),
        ("x = {'b': [1, 2]}", {"x": {"b": [1, 2]}}),
    ],
)
def test_first_operator_after_the_name_decides(line, expected):
    assert nodes(f"/a\n  {line}\n")["/a"] == expected


def test_line_that_starts_with_a_slash_is_a_node():
    assert nodes("/a=b\n  /x : t = 1") == {"/a=b": {}, "/a=b/x": {"type": "t = 1"}}
    assert complaints("/a\n  /x = 1") == [(2, 3, "expected /NODE or /NODE : TYPE")]


def test_byte_order_mark_and_line_ends_of_windows_are_accepted():
    parsed = parse_bytes("a.zk", b"\xef\xbb\xbf/a : foo\r\n  x = 'y'\r\n\r\n  /b\r\n")
    assert parsed.problems == ()
    assert parsed.tree == Tree({"/a": {"type": "foo", "x": "y"}, "/a/b": {}})
    assert parsed.positions["/a"] == (1, 1)


def test_positions_of_nodes_and_links_are_known():
    parsed = parse("a.zk", "# top\n/a\n  x = 1\n  /b\n    c -> /a\n  y => b\n")
    assert dict(parsed.positions) == {"/a": (2, 1), "/a/b": (4, 3)}
    assert len(parsed.positions) == 2
    assert "/a/c" not in parsed.positions
    assert parsed.links == {("/a/b", "c ->"): (5, 5), ("/a", "y =>"): (6, 3)}


ERRORS = [
    ("x = 1", [(1, 1, "a property must stand below the node it belongs to")]),
    ("/a\nx = 1", [(2, 1, "a property must stand below the node it belongs to")]),
    ("/a b", [(1, 1, "expected /NODE or /NODE : TYPE")]),
    ("/a :", [(1, 1, "expected /NODE or /NODE : TYPE")]),
    ("/", [(1, 1, "expected /NODE or /NODE : TYPE")]),
    ("/a/b", [(1, 2, "'a/b' is a path: expected one name")]),
    ("/..", [(1, 2, "'..' is not a node name")]),
    ("/a\u0378", [(1, 2, "'a\\u0378' is not a node name (expected 1 to 255 characters that can be seen")]),
    ("/🙂", [(1, 2, "is not a node name")]),
    ("/database server", [(1, 1, "a node's name has no blanks, so a role with blanks cannot be a target")]),
    ("/a\n  x\x9b = 1", [(2, 4, "the character U+009B is not allowed")]),
    ("/a\n  x\u202ey = 1", [(2, 4, "the character U+202E is not allowed")]),
    ("/a\n  x = 'y\u202e'", [(2, 9, "the character U+202E is not allowed")]),
    ("/a\n  x = 'y\x9b'", [(2, 9, "the character U+009B is not allowed")]),
    ("# \u2066", [(1, 3, "the character U+2066 is not allowed")]),
    ("/a\n  x\u200b = 1", [(2, 3, "'x\\u200b' is not a property name")]),
    ("/a\n  x\u0378 => b", [(2, 3, "'x\\u0378' is not a property name")]),
    ("/" + "a" * 5000, [(1, 2, "aaa...' is not a node name")]),
    ("/a\n  hello", [(2, 3, "expected /NODE, /NODE : TYPE, NAME = VALUE, NAME -> PATH or NAME => PATH")]),
    ("/a\n  = 1", [(2, 3, "expected /NODE, /NODE : TYPE, NAME = VALUE")]),
    ("/a\n  x y = 1", [(2, 3, "expected /NODE, /NODE : TYPE, NAME = VALUE")]),
    ("/a\n  x =", [(2, 6, "expected a value after =")]),
    ("/a\n  x == 1", [(2, 6, "cannot read = 1")]),
    ("/a\n  xé = [1, é]", [(2, 12, "found é (a name)")]),
    ("/a\n  " + "x" * 300 + " = 1", [(2, 3, "is not a property name")]),
    ("/a\n  x ->", [(2, 7, "expected the path of a node after ->")]),
    ("/a\n  x -> b c", [(2, 8, "expected the path of a node after ->")]),
    ("/a\n  x -> /b # c", [(2, 8, "expected the path of a node after ->")]),
    ("/a\n  x -> /b//c", [(2, 8, "'/b//c' is not a path: '' is not a node name")]),
    ("/a\n  x -> /", [(2, 8, "'/' is not a path")]),
    ("/a\n  x =>", [(2, 7, "expected the path of a node and, if it is another, a property after =>")]),
    ("/a\n  x => b c d", [(2, 8, "expected the path of a node and, if it is another, a property after =>")]),
    ("/a\n  x => b c=", [(2, 8, "'c=' is not a property name")]),
    ("/a\n  x = 1\n    y = 2\n    z = 3\n", [(3, 5, "only nodes can have indented lines below them")]),
    ("/a\n  /b\n  x = 1\n    /c\n", [(4, 5, "only nodes can have indented lines below them")]),
    ("/a\n    /b\n  /c\n  x = 1", [(3, 3, "the indentation fits no line above")]),
    ("  /a\n/b\n/c\n", [(2, 1, "the indentation fits no line above")]),
    ("/a\n/b\n/a\n  x = 1\n", [(3, 1, "the node is defined twice; first in line 1")]),
    ("/a\n  /b\n  /c\n  /b\n", [(4, 3, "the node is defined twice; first in line 2")]),
    ("/a\n  x = 1\n  y = 1\n  x = 2\n", [(4, 3, "the property x is set twice in this node; first in line 2")]),
    (
        "/a\n  /x\n    z = 1\n  y = 1\n  z = 1\n  z = 2\n",
        [(6, 3, "the property z is set twice in this node; first in line 5")],
    ),
    (
        "/a\n  x = 1\n/b\n  y = 1\n    x = 1\n    x = 2\n",
        [(5, 5, "only nodes can have"), (6, 5, "the property x is set twice in this node; first in line 5")],
    ),
    ("/a : b\n  type = 'c'\n", [(2, 3, "the property type is set twice in this node; first in line 1")]),
    (
        "/a\n  b -> c\n  /b\n    b -> d\n  b -> e\n",
        [(5, 3, "the property b is set twice in this node; first in line 2")],
    ),
    ("/a\n  /b\n\t/c\n", [(3, 1, "tabs and spaces are mixed")]),
    ("/a\n  \tx = 1\n", [(2, 3, "tabs and spaces are mixed")]),
    ("/a\n\u00a0\u00a0x = 1\n", [(2, 1, "the line begins with the blank U+00A0: indent with spaces")]),
    ("/a\n  x = 'a\0b'\n", [(2, 9, "the character U+0000 is not allowed in a tree file")]),
    ("/a\0", [(1, 3, "the character U+0000 is not allowed")]),
    ("# a\r/b", [(1, 4, "the character U+000D is not allowed")]),
    ("/a\n  x = 1\x0c\n", [(2, 8, "the character U+000C is not allowed")]),
    ("/a\n  x = '\ud800'\n", [(2, 8, "the character U+D800 is not allowed")]),
]


@pytest.mark.parametrize(("text", "expected"), ERRORS, ids=lambda state: repr(state)[:40])
def test_an_error_has_its_place_and_causes_no_other_errors(text, expected):
    problems = complaints(text)
    assert [place[:2] for place in problems] == [place[:2] for place in expected]
    assert all(wanted[2] in got[2] for got, wanted in zip(problems, expected, strict=True)), problems


@pytest.mark.parametrize("first", ["\t /a", "\u00a0/a"])
def test_an_invalid_first_line_causes_no_other_errors(first):
    assert [line for line, _, _ in complaints(f"{first}\n\n# words\n/b\n")] == [1]


def test_all_errors_of_a_file_are_reported():
    text = """\
/a b
  x = oops
  /c
    y = 1
  /c
/d
  z = 1.2.3
  z = 2
  w ->
   v = 1
  /e : t
    type = 't'
/d
  u = [
"""
    assert [(line, column) for line, column, _ in complaints(text)] == [
        (1, 1),
        (2, 7),
        (5, 3),
        (7, 10),
        (9, 7),
        (10, 4),
        (12, 5),
        (13, 1),
        (14, 7),
    ]


def test_problem_names_the_node_it_is_in():
    (problems,) = parse("a.zk", "/a\n  /b\n    x = 1.2.3").problems
    assert problems.path == "/a/b"
    assert str(problems).startswith("a.zk:3:12: /a/b: cannot read 1.2.3")


def test_the_parts_without_errors_are_kept():
    parsed = parse("a.zk", "/a\n  x = oops\n  y = 1\n  /b c\n    z = 1\n    l -> /a\n  /d\n")
    assert parsed.tree == Tree({"/a": {"y": 1}, "/a/d": {}})
    assert dict(parsed.positions) == {"/a": (1, 1), "/a/d": (7, 3)}
    assert parsed.links == {}


def test_bytes_that_are_not_utf_8_are_reported_with_their_places():
    problems = parse_bytes("a.zk", b"/a\n  x = '\xe9'\n  y = '\xc3\xa9'\n# \xff\n").problems
    assert [str(problem) for problem in problems] == [
        "a.zk:2:8: /a: the byte 0xe9 is not UTF-8 text",
        "a.zk:4:3: the byte 0xff is not UTF-8 text",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_refused(encoding):
    assert parse_bytes("a.zk", "\ufeff/a".encode(encoding)).problems


def test_utf_16_is_named():
    (problem,) = parse_bytes("a.zk", "/a".encode("utf-16")).problems
    assert str(problem) == "a.zk:1:1: the file is UTF-16; save it as UTF-8"


def test_nesting_is_limited():
    deep = "\n".join(" " * depth + "/n" for depth in range(4_000))
    assert complaints(deep, depth=64) == [(65, 65, "lines are nested deeper than 64 levels")]
    assert complaints("/a\n /b\n  x = 1\n", depth=3) == []
    assert complaints("/a\n /b\n  /c\n/d\n /e\n  /f", depth=2) == [
        (3, 3, "lines are nested deeper than 2 levels"),
        (6, 3, "lines are nested deeper than 2 levels"),
    ]


def test_values_are_limited():
    text = f"/a\n  x = '{'y' * 2**20}'\n  z = 1\n"
    assert complaints(text) == [
        (2, 7, "the value of x has 1048578 characters; at most 262144 are allowed"),
    ]
    assert complaints("/a : tttt", value=3) == [(1, 6, "the type has 4 characters; at most 3 are allowed")]
    assert complaints("/a\n  x -> /bcd", value=3) == [
        (2, 8, "the value of x has 4 characters; at most 3 are allowed")
    ]


def test_number_of_nodes_is_limited():
    text = "/a\n  /b\n  /c\n  /d\n"
    assert complaints(text, nodes=4) == []
    assert complaints(text, nodes=3) == [(4, 3, "more than 3 nodes in one file")]


def test_many_duplicates_are_reported_in_reasonable_time():
    assert len(complaints("/a\n" * 20_000)) == 19_999
    assert len(complaints("/a\n" + "  x = 1\n" * 20_000)) == 19_999
    many = "".join(f"  x{n} = 1\n" for n in range(10_000))
    problems = complaints("/a\n" + many + many)
    assert len(problems) == 10_000
    assert problems[-1] == (20_001, 3, "the property x9999 is set twice in this node; first in line 10001")


WORDS = [
    "/a",
    "/b",
    " ",
    "  ",
    "\t",
    "\n",
    "\n  ",
    "\n    ",
    "x",
    "=",
    "->",
    "=>",
    ":",
    "#",
    "'",
    "1",
    "[",
    "\r",
    "\0",
    "/",
]


@given(st.text() | st.lists(st.sampled_from(WORDS), max_size=40).map("".join))
@example("/a\n  x = 1\n    y\n   z\n /b")
def test_any_text_is_parsed(text):
    parsed = parse("a.zk", text)
    count = text.count("\n") + 1
    assert all(1 <= problem.line <= count and problem.column >= 1 for problem in parsed.problems)
    assert set(parsed.positions) == set(parsed.tree)
    assert all(parent_path(path) in {"", *parsed.tree.nodes} for path in parsed.tree)
    assert set(parsed.links) <= {(path, name) for path in parsed.tree for name in parsed.tree.nodes[path]}


@given(st.binary())
def test_any_bytes_are_parsed(content):
    parsed = parse_bytes("a.zk", content)
    assert set(parsed.positions) == set(parsed.tree)


NAMES = ["a", "a.b", "x-", "-", "..", "_1", "a:", "a" * 120]
OPERATORS = [" = ", "=", " -> ", "->", " => ", " : ", ":", " =", " -> ../", " -> /"]
VALUES = ["1", "-1", "007", "1.5", "'a'", "'it\\'s'", '"a"', "'a -> b'", "''", "x", "/a/b", "..", "'é'", "a b", ""]


@given(
    st.tuples(
        st.sampled_from(["", " ", "    ", "\t"]),
        st.sampled_from(["", "/", "#"]),
        st.sampled_from(NAMES),
        st.sampled_from(OPERATORS),
        st.sampled_from(VALUES) | st.integers().map(str) | st.text("ab '=/\\", max_size=5),
        st.sampled_from(["", " ", "\r"]),
    ).map("".join)
)
def test_a_plain_line_is_parsed_like_its_pieces(line):
    assert LineReader(LIMITS).read(line) == LineReader(LIMITS)._read_pieces(line)


LINES = [
    *("/a", "/a : t", "/b", "/c\r", "  /x", "    /y", "\t/x", " /z", "  p = 1", "    p = 'x'", "  p = ?", "p = 2"),
    *("  l -> /a", "  l => ../b p", "# c", "  # c", "", " ", "/"),
]


def told(parsed):
    return dict(parsed.tree.nodes), dict(parsed.positions), dict(parsed.links), parsed.problems


@given(st.lists(st.sampled_from(LINES), max_size=12), st.lists(st.sampled_from(LINES), max_size=12), st.data())
@example(["/a", "  /x"], ["/b", "\t/x"], None)
@example(["  /x", "/a"], [], None)
def test_parsing_by_sections_equals_parsing_the_whole_text(before, after, data):
    start, end = (0, 0) if data is None else sorted(data.draw(st.integers(0, len(before))) for _ in range(2))
    last = parse("a.zk", "\n".join(before))
    text = "\n".join([*before[:start], *after, *before[end:]])
    limits = TextLimits(nodes=9)
    with mock.patch("zkdeployment.tree.parse._MOST_SECTIONS", -1):
        whole = parse("a.zk", text, limits=limits)
    assert told(parse("a.zk", text, limits=limits)) == told(whole)
    assert told(parse("a.zk", text, limits=limits, last=last)) == told(whole)


def test_an_unchanged_top_level_node_is_not_parsed_again():
    last = parse("a.zk", "/a\n  x = 1\n/b\n  x = 1\n")
    parsed = parse("a.zk", "# c\n/a\n  x = 2\n/b\n  x = 1\n", last=last)
    assert parsed.tree == Tree({"/a": {"x": 2}, "/b": {"x": 1}})
    assert parsed.tree.nodes["/b"] is last.tree.nodes["/b"]
    assert dict(parsed.positions) == {"/a": (2, 1), "/b": (4, 1)}


@pytest.mark.parametrize("name", ["x,y", "~a", "café", "-a", "1.2.3.4:5", "a%b"])
def test_nodes_and_links_may_have_any_name_that_zookeeper_accepts(name):
    assert nodes(f"/{name}\n  l -> /{name}/x\n  /x : t\n") == {
        f"/{name}": {"l ->": f"/{name}/x"},
        f"/{name}/x": {"type": "t"},
    }

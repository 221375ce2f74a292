"""The canonical form of tree texts: the meaning and the comments stay, everything else has one spelling."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.trees import trees
from zkdeployment.cli.verbs.init import BEGINNING
from zkdeployment.tree.canonical import canonical_text
from zkdeployment.tree.diff import format_tree, stored_alike
from zkdeployment.tree.parse import parse

EXAMPLES = Path(__file__).resolve().parents[3] / "etc" / "manual" / "examples" / "tree"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" \n\n\t\n", ""),
        ("# alone", "# alone\n"),
        ("\ufeff/a\r\n\r\n\r\n\r\n/b\r\n\r\n", "/a\n\n/b\n"),
        ("    /a\n        /b\n    /c", "/a\n  /b\n/c\n"),
        ("/a\n\t/b\n\t\tx = 1\n\ty = 2", "/a\n  /b\n    x = 1\n  y = 2\n"),
        ("/a:  web  frontend \n /b :t\n/c:80", "/a : web  frontend\n  /b : t\n/c:80\n"),
        ("/a\n x=1\n l->../b\n p=>/b   q  ", "/a\n  x = 1\n  l -> ../b\n  p => /b   q\n"),
    ],
)
def test_lines_and_indentation_have_one_form(text, canonical):
    assert canonical_text(text) == canonical


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ('"a"', "'a'"),
        ('""', "''"),
        ('"it\'s"', '"it\'s"'),
        (r'"a\n"', r'"a\n"'),
        ("'a'  \"b\"'c'", "'a' 'b' 'c'"),
        ("1.10", "1.10"),
        ("0x1F+1_000", "0x1F + 1_000"),
        ("- 2*( 3-+1 )/4", "-2 * (3 - +1) / 4"),
        ("[ 1,2 , ]", "[1, 2]"),
        ("(1 ,)", "(1,)"),
        ("1,2", "1, 2"),
        ("{ }", "{}"),
        ("{\"b\":[None,-1] , 'a' : {True}, }", "{'b': [None, -1], 'a': {True}}"),
        ("'#'# why", "'#'  # why"),
        ("[1]#", "[1]  #"),
    ],
)
def test_values_have_one_form_but_keep_numbers_escapes_and_comments(value, canonical):
    assert canonical_text(f"/a\n  x ={value}\n") == f"/a\n  x = {canonical}\n"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/a\n# of x\n    x = 1\n", "/a\n  # of x\n  x = 1\n"),
        ("/a\n    x = 1\n    # of a\n# of b\n/b\n", "/a\n  x = 1\n  # of a\n# of b\n/b\n"),
        ("/a\n    /deploy\n        # /host1\n    /c\n", "/a\n  /deploy\n    # /host1\n  /c\n"),
        ("/a\n    /deploy\n   # of c\n    /c\n", "/a\n  /deploy\n  # of c\n  /c\n"),
        ("/a\n    x = 1\n            # far\n# end", "/a\n  x = 1\n  # far\n# end\n"),
    ],
)
def test_comments_stand_at_the_level_of_the_lines_around_them(text, canonical):
    assert canonical_text(text) == canonical


@given(trees())
def test_the_text_of_an_exported_tree_is_canonical(tree):
    text = format_tree(tree)
    assert canonical_text(text) == text


@pytest.mark.parametrize("file", [BEGINNING / "site.zk", *EXAMPLES.iterdir()], ids=lambda file: file.name)
def test_the_trees_that_people_begin_with_are_canonical(file):
    text = file.read_text(encoding="utf-8")
    assert canonical_text(text) == text


BLANKS = st.sampled_from(["", " ", "  ", "\t"])
LITERALS = st.sampled_from(
    [
        "1",
        "1.50",
        "-1",
        "- 1",
        "1+2",
        "2 *(3 -1)",
        "'a'",
        '"a"',
        '"it\'s"',
        r"'\t\x41'",
        "r'\\d'",
        "'a' \"b\"",
        "'#'",
    ]
) | st.recursive(
    st.sampled_from(["0x1F", "None", "True", '"é"', "'🎉'"]),
    lambda inner: st.tuples(
        st.sampled_from(["[]", "()", "{}"]), st.lists(inner, min_size=2, max_size=3), BLANKS, st.booleans()
    ).map(lambda made: f"{made[0][0]}{made[2]}{(',' + made[2]).join(made[1])}{',' * made[3]}{made[0][1]}"),
    max_leaves=6,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return a text as people may write it; its comments are ``#1``, ``#2`` and so on."""
    unit = draw(st.sampled_from([" ", "   ", "\t"]))
    end = draw(st.sampled_from(["\n", "\r\n", " \t\n"]))
    written, comments, depth = "", 0, 0
    for number in range(draw(st.integers(0, 9))):
        for _ in range(draw(st.integers(0, 2))):
            comments += 1
            written += draw(st.sampled_from([f"{unit * draw(st.integers(0, 4))}#{comments} \t", ""])) + end
        before, behind = draw(BLANKS), draw(BLANKS)
        line = draw(
            st.one_of(
                st.just(f"/n{number}"),
                st.just(f"/n{number}{before}:{behind or ' '}t  u"),
                LITERALS.map(f"p{number}{before}={behind}".__add__),
                st.just(f"l{number}{before}->{behind}../n{draw(st.integers(0, 9))}"),
                st.just(f"q{number}{before}=>{behind}/n0 {behind}p"),
            )
            if depth
            else st.just(f"/n{number}")
        )
        if "=" in line and "=>" not in line and draw(st.booleans()):
            comments += 1
            line += f"{before}#{comments}"
        written += unit * depth + line + end
        depth = draw(st.integers(0, depth + 1 if line[0] == "/" else depth))
    return written


@given(texts())
def test_the_meaning_and_the_comments_stay_and_a_second_time_changes_nothing(text):
    parsed = parse("a.zk", text)
    assume(not parsed.problems)
    canonical = canonical_text(text)
    again = parse("a.zk", canonical)
    assert again.problems == ()
    assert list(again.tree) == list(parsed.tree)
    assert all(stored_alike(parsed.tree.nodes[path], again.tree.nodes[path]) for path in parsed.tree)
    assert [list(again.tree.nodes[path]) for path in again.tree] == [
        list(parsed.tree.nodes[path]) for path in parsed.tree
    ]
    assert canonical_text(canonical) == canonical
    assert re.findall(r"#\d+", canonical) == re.findall(r"#\d+", text)
    assert not re.search(r"[ \t\r]$|^ *\t", canonical, re.MULTILINE)
    assert all((len(line) - len(line.lstrip())) % 2 == 0 for line in canonical.splitlines())

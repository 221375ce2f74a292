"""Quick fixes: after each of them, lint no longer finds the problem."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zkdeployment.base.source_files import SourceFile
from zkdeployment.editors.rules.fixes import fixes
from zkdeployment.publishing.rules.review import lint_problems, review
from zkdeployment.tree.parse import MIXED


def problems_of(text):
    return lint_problems(review([SourceFile("main.zk", text.encode())]))


def fixed(text, fix):
    lines = text.split("\n")
    for edit in reversed(fix.edits):
        line = lines[edit.line]
        lines[edit.line] = line[: edit.start] + edit.text + line[edit.end :]
    return "\n".join(lines)


def offered(text):
    """Return the texts after each fix of each problem, by the title of the fix."""
    lines = text.split("\n")
    return {fix.title: fixed(text, fix) for problem in problems_of(text) for fix in fixes(problem, lines)}


SERVICE = "/web : shop\n  version = '1'\n  /deploy\n    /h1\n"
SYSTEM = "/os : system\n  release = '1'\n  /deploy\n    /h1\n"


@pytest.mark.parametrize(
    ("text", "written", "title", "meant"),
    [
        (SERVICE, "verison = '1'", "Replace verison by version", "version = '1'"),
        (SERVICE, "verison => /x y", "Replace verison by version", "version => /x y"),
        (SERVICE, "version = 1.10", "Replace 1.10 by '1.10'", "version = '1.10'"),
        (SERVICE, "version = 1.2.3", "Replace 1.2.3 by '1.2.3'", "version = '1.2.3'"),
        (SERVICE, "version = 1.0-rc1", "Replace 1.0-rc1 by '1.0-rc1'", "version = '1.0-rc1'"),
        (SERVICE, "version = v1", "Replace v1 by 'v1'", "version = 'v1'"),
        (SERVICE, "true = true", "Replace true by True", "true = True"),
        (SERVICE, "home = /srv/web", "Replace /srv/web by '/srv/web'", "home = '/srv/web'"),
        (
            SYSTEM,
            "release = '1'\n  reboto = 'never'",
            "Replace reboto by reboot",
            "release = '1'\n  reboot = 'never'",
        ),
    ],
)
def test_a_misspelt_property_and_a_value_without_quotes_are_corrected(text, written, title, meant):
    kept = "release = '1'" if text is SYSTEM else "version = '1'"
    assert offered(text.replace(kept, written))[title] == text.replace(kept, meant)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("/web : shop\n  version = '1'\n", "/web : shop\n  version = '1'\n  /deploy\n"),
        (
            "/a\n\t/web : shop\n\t\tversion = '1'\n\t\t/x\n\t\t\ty = 1\n# c\n/b\n",
            "/a\n\t/web : shop\n\t\tversion = '1'\n\t\t/x\n\t\t\ty = 1\n\t\t/deploy\n# c\n/b\n",
        ),
    ],
)
def test_a_missing_deploy_node_is_added_at_the_end_of_the_service(text, after):
    assert offered(text).get("Add /deploy") == after


def test_a_deploy_node_in_capital_letters_is_renamed():
    text = SERVICE.replace("/deploy", "/Deploy")
    assert offered(text) == {"Replace /Deploy by /deploy": SERVICE}


@pytest.mark.parametrize(
    "quiet",
    [
        SERVICE.replace("    /h1\n", ""),
        "/roles\n  /web : controller\n    version = '1'\n",
        "/db : postgres\n  port = 5432\n",
        "/api\n  version = 2\n",
    ],
)
def test_nodes_that_are_no_services_and_services_without_targets_need_no_deploy_node(quiet):
    assert problems_of(quiet) == []


def test_tabs_become_spaces_in_each_usual_width_the_one_without_problems_first():
    text = "/a\n  /b\n    x = 1\n\ty = 2\n"
    assert list(offered(text).items()) == [
        ("Indent with spaces; a tab is 4 columns wide", text.replace("\t", "    ")),
        ("Indent with spaces; a tab is 2 columns wide", text.replace("\t", "  ")),
        ("Indent with spaces; a tab is 8 columns wide", text.replace("\t", "        ")),
    ]


LINES = st.sampled_from(
    [
        *("/a", "/b : shop", "/os : system", "/Deploy", "/deploy", "/h1", "# c", ""),
        *(
            "version = 1.10",
            "verison = '1'",
            "version = 1.2",
            "version = 1.2.3",
            "release = '1'",
            "relaese = 2026",
        ),
        *("x = true", "true = true", "y = word word", "z = [word]", "reboto = never", "p => /a version"),
    ]
)
INDENTS = st.sampled_from(["", "  ", "    ", "\t", "\t\t", "      "])


@given(st.lists(st.tuples(INDENTS, LINES).map("".join), max_size=9).map("\n".join))
@example("/b : shop\n\t\tversion = 1.10\n\t/a")
def test_after_a_fix_lint_no_longer_finds_the_problem(text):
    found = problems_of(text)
    for problem in found:
        for fix in fixes(problem, text.split("\n")):
            after = {(one.message, one.line, one.path) for one in problems_of(fixed(text, fix))}
            if problem.message == MIXED:
                assert MIXED not in {message for message, _, _ in after}
            else:
                assert (problem.message, problem.line, problem.path) not in after, fix

"""Documents of check groups: their values, and each fault with its place."""

import pytest

from zkdeployment.base.source_files import SourceFile
from zkdeployment.checks.documents import CHECK_GROUP, CheckGroup, GroupLevel, check_problems
from zkdeployment.documents.reading import read_documents

TEXT = """\
schema: zkdeployment/CheckGroup/v1
metadata: {name: shop-quorum}
data: {object: /p1/shop, at_least: 2, checks: [front-http, disk], level: warning}
"""


def read(text):
    return read_documents([SourceFile("c.yaml", text.encode())])


def test_a_group_is_read():
    (group,) = read(TEXT).of(CHECK_GROUP).values()
    assert group == CheckGroup("shop-quorum", "/p1/shop", 2, ("front-http", "disk"), GroupLevel.WARNING)
    (all_checks,) = read(TEXT.replace(", checks: [front-http, disk], level: warning", "")).of(CHECK_GROUP).values()
    assert (all_checks.checks, all_checks.level) == ((), GroupLevel.CRITICAL)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("at_least: 2", "at_least: 0", "3:36: data.at_least: expected a whole number of deployments, at least 1"),
        ("at_least: 2, ", "", "data: 'at_least' is a required property"),
        ("front-http, disk", "disk, disk", "data.checks[1]: disk is listed twice; keep one of them"),
        ("level: warning", "level: loud", "data.level: expected one of: warning, critical"),
    ],
)
def test_a_faulty_group_is_an_error_with_its_place(before, after, expected):
    assert before in TEXT
    assert any(expected in str(problem) for problem in read(TEXT.replace(before, after)).problems)


def test_the_node_and_the_checks_of_a_group_exist():
    problems = [str(problem) for problem in check_problems(read(TEXT), {"/p1"}, checks={"disk", "ping"})]
    assert len(problems) == 2
    assert "data.object: there is no node /p1/shop; expected the path of a node of the tree" in problems[0]
    assert "data.checks[0]: there is no check front-http; expected one of: disk, ping" in problems[1]

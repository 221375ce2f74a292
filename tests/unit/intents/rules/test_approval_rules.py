"""Which approvals services below a path need: how many, whose, and how old they may be."""

from __future__ import annotations

import pytest

from zkdeployment.base.durations import CLOCK_TOLERANCE
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.intents.rules.approvals import (
    ApprovalRule,
    expiry,
    missing_approvals,
    parse_rules,
    rules_for,
)

TEXT = """\
# PATH  NUMBER  DAYS  NAMES
/p1     2       30    alice bob carol  # the shop
/p1/db  1       -     dora
/       1       -     *
"""
SHOP, DB, ALL = (
    ApprovalRule("/p1", 2, ("alice", "bob", "carol"), 30),
    ApprovalRule("/p1/db", 1, ("dora",)),
    ApprovalRule("/"),
)
RULES = (SHOP, DB, ALL)


def test_rules_are_read():
    assert parse_rules(TEXT, "rules") == RULES
    assert parse_rules("", "rules") == ()


@pytest.mark.parametrize(
    "line",
    [
        "/p1 0 - alice",
        "p1 1 - alice",
        "/p1 2 - alice",
        "/p1 2 - alice alice",
        "/p1 1 - * alice",
        "/p1 1 -",
        "/p1 1 x a",
    ],
)
def test_a_line_that_is_not_a_rule_is_an_error_with_its_number(line):
    with pytest.raises(ConfigurationError, match=r"rules:2: expected PATH NUMBER DAYS NAME.*found '/?p1"):
        parse_rules(f"# comment\n{line}", "rules")


@pytest.mark.parametrize(
    ("paths", "rules"),
    [
        (["/p1/front"], [SHOP]),
        (["/p1/db/main"], [DB]),
        (["/p1"], [SHOP, DB]),  # the group governs what another rule is about, too
        (["/p1/front", "/p1/db"], [SHOP, DB]),
        (["/p11"], [ALL]),
    ],
)
def test_all_rules_above_and_below_the_paths_of_a_group_hold(paths, rules):
    assert rules_for(paths, RULES) == tuple(rules)


def test_without_a_rule_one_approval_is_enough():
    (rule,) = rules_for(["/p1"], ())
    assert missing_approvals([rule], ["anybody"]) is None


@pytest.mark.parametrize(
    ("approvers", "missing"),
    [
        ([], "0 of 2 approvals for /p1; needs 2 more of alice, bob, carol"),
        (["alice"], "1 of 2 approvals for /p1: alice; needs 1 more of bob, carol"),
        (["alice", "eve"], "1 of 2 approvals for /p1: alice; needs 1 more of bob, carol"),
        (["alice", "carol"], None),
    ],
)
def test_whose_approvals_are_missing(approvers, missing):
    assert missing_approvals([SHOP], approvers) == missing


def test_each_rule_needs_its_own_approvals():
    missing = missing_approvals([SHOP, DB], ["alice", "bob"])
    assert missing == "0 of 1 approvals for /p1/db; needs 1 more of dora"
    assert missing_approvals([SHOP, DB], ["alice", "bob", "dora"]) is None


def test_an_approval_expires():
    day = 86_400
    assert expiry([SHOP, DB], 100 * day, 130 * day) is None
    found = expiry([SHOP, DB], 100 * day, 130 * day + 1)
    assert found == "it has expired: approvals for /p1 count for 30 days; approve the group again"


def test_an_approval_from_the_future_does_not_count_beyond_a_tolerance_even_without_days():
    assert expiry([DB], 1000 + CLOCK_TOLERANCE, 1000) is None
    found = expiry([DB], 1000 + 3651 * 86_400, 1000)
    assert found is not None
    assert found.startswith("its instance 315447400 is the time of the first approval, and 3651 d in the future;")
    assert expiry([SHOP], 1000 + 3651 * 86_400, 1000) == found

"""Pokes to real HTTP servers."""

from __future__ import annotations

import pytest

from support.checks.fleet import PokedSystem
from zkdeployment.checks.daemon import HttpPokeSender


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (200, None),
        (204, None),
        (304, "expected a status between 200 and 299, found 304"),
        (500, "expected a status between 200 and 299, found 500"),
        (0, "it cannot be reached: its answer is not valid HTTP"),
    ],
)
def test_only_a_success_is_a_delivered_poke(status: int, problem: str | None):
    with PokedSystem(lambda: status) as system:
        assert HttpPokeSender().send(system.url, "id-1") == problem
        assert system.attempts == 1
        assert system.pokes == ([] if problem else [{"uuid": "id-1", "path": "/deployments/id"}])


def test_a_callback_that_cannot_be_used_is_a_problem_without_the_url():
    for url in ("http://127.0.0.1:1/secret", "nonsense:/secret", "http://[::1"):
        problem = HttpPokeSender().send(url, "id-1")
        assert problem is not None
        assert "secret" not in problem

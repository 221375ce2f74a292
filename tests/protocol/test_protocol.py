"""Spin finds no broken invariant in the worlds of the model, and one in each world without one of its rules."""

import pytest

from protocol.model import MUTATIONS, WORLDS, search

pytestmark = pytest.mark.timeout(1300)  # a minute of processor time, more on a busy machine

#: The worlds whose search takes a second; all others wait a night.
_SMALL = {"one lock", "released locks"}


@pytest.mark.parametrize(
    "world", [pytest.param(name, marks=[] if name in _SMALL else pytest.mark.nightly) for name in WORLDS]
)
def test_the_protocol_keeps_its_invariants(world, tmp_path):
    found = search(tmp_path, WORLDS[world])
    assert "errors: 0" in found, found
    assert "not completed" not in found, found


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(name, marks=[] if name == "NO_LEASE" else pytest.mark.nightly) for name in MUTATIONS],
)
def test_without_a_rule_an_invariant_breaks(mutation, tmp_path):
    found = search(tmp_path, f"{WORLDS[MUTATIONS[mutation]]} {mutation}")
    assert "assertion violated" in found or "invalid end state" in found, found
    assert "errors: 1" in found, found

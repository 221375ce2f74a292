"""The promoter with simulated fleets: the invariants hold in many seeds, and defects break them."""

from dataclasses import replace

import pytest

from simulation import promotions
from simulation.promotions import PromotionOptions, PromotionWorld, run_promotions
from zkdeployment.promotion import daemon, rules
from zkdeployment.promotion.records import BranchMove
from zkdeployment.promotion.rules import FleetFacts, PromotionFacts

SMALL = PromotionOptions(1, fleets=8, hosts=80, faults=4000.0)


@pytest.fixture(autouse=True)
def _no_limit_of_time(monkeypatch):
    monkeypatch.setattr(promotions, "DECISION_LIMIT", 60.0)  # a busy machine is no defect


@pytest.mark.parametrize("seeds", [3, pytest.param(12, marks=pytest.mark.nightly)])
def test_promotions_keep_all_invariants_when_promoters_are_killed_and_fleets_fail(seeds):
    lines = []
    assert run_promotions(SMALL, range(1, seeds + 1), lines.append) == 0, "\n".join(lines)


def test_many_fleets_converge_after_faults_within_the_limits_of_a_node():
    result = PromotionWorld(PromotionOptions(5, fleets=60, hosts=6000, faults=3000.0)).run()
    assert result.violations == []
    assert result.counts["kills"] > 0
    assert result.size < 100_000


def test_a_seed_has_the_same_outcome_each_time():
    outcomes = [PromotionWorld(replace(SMALL, seed=7)).run() for _ in range(2)]
    assert outcomes[0].counts == outcomes[1].counts
    assert outcomes[0].size == outcomes[1].size


def found(seeds=range(1, 25)):
    """Return the first violation in these seeds."""
    for seed in seeds:
        violations = PromotionWorld(replace(SMALL, seed=seed)).run().violations
        if violations:
            return violations[0]
    return ""


@pytest.mark.nightly
def test_a_promoter_that_moves_branches_without_a_grant_is_detected(monkeypatch):
    def all_moves(state, facts):
        return {
            fleet.name: BranchMove(fleet.branch, facts.readings[fleet.name].tip.commit, state.revision)
            for fleet in facts.fleets.fleets
            if not facts.readings[fleet.name].has and not facts.readings[fleet.name].diverged
        }

    monkeypatch.setattr(daemon, "wanted_moves", all_moves)
    assert "moves before its grant is recorded" in found()


@pytest.mark.nightly
def test_a_promoter_that_moves_diverged_branches_is_detected(monkeypatch):
    monkeypatch.setattr(FleetFacts, "diverged", property(lambda _: False))
    assert found() != ""


@pytest.mark.nightly
def test_a_promoter_that_believes_each_service_is_detected(monkeypatch):
    def has_converged(reading):
        return reading.report is not None and reading.report.state is rules.FleetState.CONVERGED and reading.runs

    monkeypatch.setattr(FleetFacts, "has_converged", property(has_converged))
    assert found() != ""


@pytest.mark.nightly
def test_a_rollback_that_a_diverged_fleet_fails_is_detected(monkeypatch):
    monkeypatch.setattr(PromotionFacts, "awaits_reset", lambda _facts, _fleet: False)
    assert "which waits for its reset" in found()


@pytest.mark.nightly
def test_a_promoter_that_passes_pins_is_detected(monkeypatch):
    monkeypatch.setattr(PromotionFacts, "kept_out", property(lambda facts: frozenset(facts.withheld)))
    assert "moves beyond its pin" in found()

"""The metrics of promoters, from values."""

from support.fleets.promoted import SimulatedFleets, promotion
from support.metrics import samples
from zkdeployment.base.act import Act
from zkdeployment.promotion.daemon import fleet_metrics
from zkdeployment.promotion.records import FleetStanding, FleetState
from zkdeployment.strategies.daemon import rollout_metrics
from zkdeployment.strategies.strategy import Group, MemberKind


def test_a_promoter_that_does_not_lead_has_no_samples_of_promotions():
    values = samples((*rollout_metrics(MemberKind.FLEET, None, leads=False), *fleet_metrics((), leads=False)))
    assert values.pop("leads") == 0
    assert set(map(str, values.values())) == {"{}"}


def test_a_promoter_that_leads_counts_fleets_by_state():
    simulated = SimulatedFleets.of("eu", "us")
    state = simulated.decide(simulated.start(promotion(Group("all", critical=True))))
    standings = [
        FleetStanding("eu", FleetState.CONVERGED, tip="c1", behind=2),
        FleetStanding("us", FleetState.STOPPED, tip="c1", withheld=Act("op", "withhold")),
    ]
    values = samples(
        (*rollout_metrics(MemberKind.FLEET, state, leads=True), *fleet_metrics(standings, leads=True, streams=2))
    )
    assert values["leads"] == 1
    assert {key: value for (key,), value in values["fleets"].items() if value} == {"converged": 1, "stopped": 1}
    assert values["fleet_commits_behind"] == {("eu",): 2, ("us",): 0}
    assert values["fleets_withheld"] == 1
    assert values["event_streams"] == 2
    assert values["promotion_info"] == {(state.revision, "1-1", "promotion"): 1}
    assert {key: value for (key,), value in values["promotion_fleets"].items() if value} == {"not started": 2}


def test_a_fleet_without_a_branch_counts_as_such_and_not_as_converged():
    standings = [FleetStanding("eu", FleetState.CONVERGED), FleetStanding("us", FleetState.CONVERGED, tip="c1")]
    values = samples(fleet_metrics(standings, leads=True))
    assert {key: value for (key,), value in values["fleets"].items() if value} == {"converged": 1, "no branch": 1}

"""The page of the rollout: groups in order, active and failed hosts, and what operators can do."""

from dataclasses import replace

import pytest

from support.builders import make_host
from support.strategies import (
    EXAMPLE_HOSTS,
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.rollouts.views import rollout_view
from zkdeployment.service.views.fleet import Tone
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricProgress,
    MetricStage,
    Outcome,
    parse_comparison,
)
from zkdeployment.strategies.state import Ending
from zkdeployment.strategies.strategy import Pace

NOW = 2_000.0


def view(state, *, coordinator="adm1", may_act=True, name="s"):
    hosts = tuple(make_host(host, "r1") for host in EXAMPLE_HOSTS)
    snapshot = FleetSnapshot(
        Cluster("r2"),
        published="r2",
        hosts=hosts,
        rollout=state,
        coordinator=coordinator,
        strategy=name,
        governed=name is not None,
    )
    return rollout_view(snapshot, fleet_status(snapshot), now=NOW, may_act=may_act)


def test_groups_are_in_order_with_their_active_hosts():
    found = view(
        active_rollout(advanced_rollout(begun_rollout(), until="control-nodes"), granted=["ctl1", "ctl2"])
    )

    names = [row.name for row in found.groups]
    assert names.index("ntp-node") < names.index("control-nodes")
    control = next(row for row in found.groups if row.name == "control-nodes")
    assert [link.name for link in control.active] == ["ctl1.example.com", "ctl2.example.com"]
    assert (found.tone, found.headline) == (Tone.BUSY, "The rollout is under way")
    assert found.sentence.startswith("Now: control-nodes is preparing")
    assert [link.label for link in found.acts] == ["Pause the rollout", "Abort the rollout"]


def test_viewers_are_offered_no_acts():
    assert view(begun_rollout(), may_act=False).acts == ()


@pytest.mark.parametrize(
    ("state", "tone", "headline"),
    [
        (ended_rollout(begun_rollout(), Ending.ABORTED), Tone.HALTED, "The rollout was aborted"),
        (
            ended_rollout(begun_rollout(), Ending.SUPERSEDED),
            Tone.UNKNOWN,
            "A newer publication replaced the rollout",
        ),
        (
            ended_rollout(advanced_rollout(begun_rollout())),
            Tone.GOOD,
            "The rollout succeeded",
        ),
        (
            replace(begun_rollout(), paused=Act("ann", "rollout pause", "looking", 1_500.0)),
            Tone.HALTED,
            "The rollout is paused",
        ),
    ],
)
def test_the_headline_shows_the_state_of_the_rollout(state, tone, headline):
    found = view(state)

    assert (found.tone, found.headline) == (tone, headline)


def test_the_page_counts_the_hosts_that_the_frame_counts():
    assert str(view(begun_rollout()).progress) == f"0 of {len(EXAMPLE_HOSTS)} hosts have the wanted revision"


def test_failed_hosts_come_before_a_decision():
    manual = replace(group("b", "a"), pace=Pace(manual=True))
    plan = strategy(replace(group("a", hosts="xz"), critical=False), manual)
    waiting = advanced_rollout(begun_rollout(plan, plain_hosts("xyz")), until="b")
    waiting = replace(waiting, waiting="the group b is manual")

    assert view(waiting).headline == "The rollout waits for a decision"
    found = view(replace(waiting, errors={"x": "boom"}))
    assert (found.tone, found.headline) == (Tone.BAD, "1 host failed; the rollout waits for a decision")


def test_a_rollout_without_a_coordinator_does_not_continue():
    found = view(begun_rollout(), coordinator=None)

    assert (found.tone, found.headline) == (Tone.BAD, "The rollout does not continue")


def test_failed_hosts_are_named_with_their_errors():
    state = replace(ended_rollout(advanced_rollout(begun_rollout(), "ntp01")), errors={"ntp01": "boom"})

    found = view(state)

    assert [(failure.host.name, failure.error) for failure in found.failures] == [("ntp01.example.com", "boom")]
    assert [(row.failed, row.tone) for row in found.groups if row.name == "ntp-node"] == [(1, Tone.BAD)]


def test_a_manual_group_can_be_promoted_when_it_is_next():
    manual = replace(group("b", "a"), pace=Pace(manual=True))
    plan = strategy(group("a", hosts="x"), manual)
    begun = begun_rollout(plan, plain_hosts("xy"))

    (ready,) = view(advanced_rollout(begun, until="b")).groups[1].acts

    assert view(begun).groups[1].acts == ()
    assert ready.kind == "primary"
    assert ready.href == "/acts/rollout-promote?group=b&back=%2Frollout"


@pytest.mark.parametrize(
    ("name", "coordinator", "headline"),
    [
        (None, "adm1", "There is no rollout"),
        ("s", None, "The rollout does not begin"),
        ("s", "adm1", "The rollout is about to begin"),
    ],
)
def test_without_a_rollout_the_page_shows_the_reason(name, coordinator, headline):
    assert view(None, name=name, coordinator=coordinator).headline == headline


def test_metrics_have_plots_queries_and_only_safe_links_to_graphs():
    metrics = tuple(
        AnalysisMetric(f"m{number}", "up", parse_comparison("<= 1"), server="main") for number in range(8)
    )
    measured = (Measurement(0.0, 1.0, Outcome.FAILED, 3.0, 1.0, server="main"),)
    progress = MetricProgress(MetricStage.FAILED, failed=1, measurements=measured)
    analysis = GroupAnalysis({"m0": progress}, graphs={"main": "https://graphs.example.com"})
    plan = strategy(replace(group("x"), pace=Pace(bake_time=60.0, analysis=metrics)))
    state = begun_rollout(plan, plain_hosts("a"), analyses={"x": analysis})

    (row,) = view(state).groups
    (first, *others), more = row.metrics, row.more_metrics

    assert (first.tone, first.verdict, first.last, len(others), more) == (
        Tone.BAD,
        "failed",
        "3, expected <= 1",
        5,
        2,
    )
    assert first.plot is not None
    assert others[0].plot is None
    assert first.graph == "https://graphs.example.com/graph?g0.expr=up&g0.tab=0"
    hostile = replace(analysis, graphs={"main": "javascript:alert(1)"})
    assert view(replace(state, analyses={"x": hostile})).groups[0].metrics[0].graph == ""

"""The decisions for which a rollout waits: whose they are, since when, and which verb makes them."""

from dataclasses import replace

import pytest

from support.strategies import active_rollout, advanced_rollout, begun_rollout, ended_rollout, group, strategy
from support.strategies import plain_hosts as hosts
from zkdeployment.base.act import Act, describe_decision
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    MetricProgress,
    MetricStage,
    parse_comparison,
)
from zkdeployment.strategies.strategy import Pace
from zkdeployment.strategies.views import decisions

PLAN = strategy(group("canary", hosts="a"), replace(group("rest", "canary", hosts="b"), pace=Pace(manual=True)))
BEGUN = begun_rollout(PLAN, hosts("ab"))
DUE = replace(advanced_rollout(BEGUN, until="rest"), waiting="rest waits", waiting_since=5_000.0)
PAUSE = Act("ann", "rollout pause", "latency", 4_000.0)
ERRORS = AnalysisMetric("errors", "errors", passes=parse_comparison("< 1"))
MEASURED = strategy(replace(group("x", hosts="a"), pace=Pace(bake_time=600.0, analysis=(ERRORS,))))
OVERDUE = begun_rollout(
    MEASURED, hosts("a"), analyses={"x": GroupAnalysis({"errors": MetricProgress(MetricStage.OVERDUE)})}
)


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (DUE, [("rest", 5_000.0, "zkdeployment rollout promote rest --reason TEXT")]),
        (replace(DUE, waiting_since=None), [("rest", 1_000.0, "zkdeployment rollout promote rest --reason TEXT")]),
        (replace(DUE, promoted=frozenset({"rest"})), []),
        (replace(DUE, waiting=""), []),
        (replace(BEGUN, waiting="canary waits for its time window"), []),
        (active_rollout(BEGUN, granted=["a"]), []),
        (replace(active_rollout(BEGUN), paused=PAUSE), [(None, 4_000.0, "zkdeployment rollout resume")]),
        (ended_rollout(replace(DUE, paused=PAUSE)), []),
        (OVERDUE, [("x", 1_000.0, "zkdeployment rollout promote x --reason TEXT")]),
        (
            active_rollout(OVERDUE, done=["a"], baking=1_050.0),
            [("x", 1_650.0, "zkdeployment rollout promote x --reason TEXT")],
        ),
    ],
)
def test_a_decision_names_its_group_its_begin_and_the_verb_that_makes_it(state, found):
    assert [(each.group, each.since, each.command) for each in decisions(state)] == found


def test_a_decision_in_a_sentence():
    (manual,), (pause,) = decisions(DUE), decisions(replace(DUE, paused=PAUSE))

    assert describe_decision(manual, 5_720.0) == (
        "group rest has waited for a decision for 12 min: it is manual;"
        " 'zkdeployment rollout promote rest --reason TEXT' continues"
    )
    assert str(pause) == (
        "the rollout waits for a decision: rollout pause by ann: latency; 'zkdeployment rollout resume' continues"
    )

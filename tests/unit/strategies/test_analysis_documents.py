"""Metrics in the documents of strategies: their values, their faults with places, and their form as JSON."""

import json

import pytest

from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.strategies.analysis import AnalysisMetric, NoData, parse_comparison
from zkdeployment.strategies.documents import strategies, strategy_from_json, strategy_to_json

QUERY = 'max(up{instance=~"$instances"})'


def metric_value(**fields):
    return {"name": "errors", "query": QUERY, "pass": "<= 0.01", **fields}


def read(*metrics, **fields):
    group = {"name": "canary", "critical": True, "depends_on": [], "selectors": [], "bake_time": "30m", **fields}
    text = f"""\
schema: shipyard/DeploymentStrategy/v1
metadata: {{name: deployment-strategy}}
data:
  groups:
    - {json.dumps(group | {"analysis": list(metrics)})}
"""
    return read_documents([SourceFile("s.yaml", text.encode())])


def analysis(*metrics, **fields):
    documents = read(*metrics, **fields)
    assert not documents.errors
    return strategies(documents)["deployment-strategy"].group("canary").pace.analysis


def test_a_metric_has_defaults():
    expected = AnalysisMetric("errors", QUERY, parse_comparison("<= 0.01"), interval=60.0, initial_delay=60.0)
    assert analysis(metric_value()) == (expected,)


@pytest.mark.parametrize(
    ("fields", "delay"),
    [({"interval": "5m"}, 300.0), ({"initial_delay": 0}, 0.0), ({"initial_delay": "2m"}, 120.0)],
)
def test_the_first_measurement_is_after_one_interval_unless_given_and_stays_so_as_json(fields, delay):
    documents = read(metric_value(**fields))
    (strategy,) = strategies(documents).values()
    for found in (strategy, strategy_from_json(json.loads(json.dumps(strategy_to_json(strategy))))):
        assert [metric.initial_delay for metric in found.group("canary").pace.analysis] == [delay]


def test_all_keys_of_a_metric_are_read():
    given = {
        "interval": "5m",
        "initial_delay": "90s",
        "failure_limit": 2,
        "no_data": "fail",
        "compare": "others",
        "dry_run": True,
        "server": "main",
    }
    assert analysis(metric_value(**given)) == (
        AnalysisMetric(
            "errors",
            QUERY,
            parse_comparison("<= 0.01"),
            interval=300.0,
            initial_delay=90.0,
            failure_limit=2,
            no_data=NoData.FAILS,
            compare="others",
            dry_run=True,
            server="main",
        ),
    )


def test_metrics_survive_their_form_as_json():
    documents = read(metric_value(no_data="pass", failure_limit=1), metric_value(name="b", compare="before"))
    (strategy,) = strategies(documents).values()
    assert strategy_from_json(json.loads(json.dumps(strategy_to_json(strategy)))) == strategy


@pytest.mark.parametrize(
    ("metrics", "fields", "problem"),
    [
        (
            [metric_value()],
            {"bake_time": 0},
            "analysis: expected a bake_time, during which the metrics are measured",
        ),
        ([metric_value(), metric_value()], {}, "there are 2 metrics errors in the group; expected one"),
        ([metric_value(**{"pass": "0.01"})], {}, "analysis[0].pass: expected a comparison as in '<= 0.01'"),
        ([metric_value(query='up{a=~"$host"}')], {}, "analysis[0].query: there is no variable $host"),
        ([metric_value(query="sum(")], {}, "analysis[0].query: the query is not valid PromQL"),
        ([metric_value(query="up[5m]")], {}, "analysis[0].query: the query returns all values of a time range"),
        ([metric_value(interval=0)], {}, "analysis[0].interval: expected more than"),
        ([metric_value(no_data="ignore")], {}, "analysis[0].no_data: expected wait, pass or fail, found 'ignore'"),
        ([metric_value(failure_limit=-1)], {}, "analysis[0].failure_limit: -1 is less than the minimum of 0"),
        ([metric_value(failure_limits=1)], {}, "unknown key 'failure_limits'; did you mean failure_limit?"),
        ([metric_value(compare="rest")], {}, "analysis[0].compare: expected others or before"),
    ],
)
def test_faults_of_metrics_have_their_places(metrics, fields, problem):
    first, *_ = read(*metrics, **fields).errors
    assert problem in str(first)


@pytest.mark.parametrize("fields", [{"pass": "<= 1.2 * others"}, {"compare": "others"}])
def test_a_query_that_is_the_same_for_the_others_is_advised_against(fields):
    (same,) = read(metric_value(query='up{job=~"$service"}', **fields)).advice
    assert "query: warning: metric errors compares a query with itself; expected $instances or $hosts" in str(same)
    assert not read(metric_value(**fields)).advice


def test_a_metric_without_a_measurement_in_the_bake_time_is_advised_against():
    (late,) = read(metric_value(initial_delay="31m")).advice
    assert "initial_delay: warning: metric errors is not measured within the bake time of canary" in str(late)
    (late,) = read(metric_value(interval="31m")).advice
    assert "interval: warning: metric errors is not measured within the bake time of canary" in str(late)

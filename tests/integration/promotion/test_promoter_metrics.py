"""Metrics of fleets decide in a promotion, with a real Prometheus."""

from support.fleets.staged import CANARY, REST, staged_fleets
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.rollouts.measuring import MetricMeasurements, VariableReader, metrics_servers
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.sandbox.analysis_demo import PrometheusServer
from zkdeployment.strategies.analysis import AnalysisMetric, parse_comparison
from zkdeployment.strategies.criteria import OutsideCriterion
from zkdeployment.strategies.group_analysis import ANALYSIS, MetricKey, MetricRequest
from zkdeployment.strategies.queries import QueryVariables
from zkdeployment.strategies.state_machine import RolloutResult
from zkdeployment.strategies.strategy import MemberKind


def test_a_metric_of_the_canary_fails_the_promotion(tmp_path, zookeeper, session):
    server = PrometheusServer(tmp_path / "prometheus")
    server.start()
    metric = {"name": "errors", "query": 'vector(2) unless up{fleet=~"$hosts"}', "pass": "<= 1", "interval": "1s"}
    reader = VariableReader(session, SystemClock())
    servers = metrics_servers({"main": MetricsSettings(url=server.url, timeout=30.0)})
    measurements = MetricMeasurements(servers, reader.read, SystemClock(), lambda: None)
    measurements.start()
    criterion = OutsideCriterion(ANALYSIS, lambda: None, lambda: None, measurements.read)
    try:
        with staged_fleets(tmp_path, zookeeper, session, "eu-1", "us-1") as fleets:
            commit = fleets.push(CANARY | {"bake_time": "2s", "analysis": [metric]}, REST)
            with fleets.promoter(criteria=[criterion]) as running:
                state = running.until_ended(commit)
            assert fleets.branches() == {"eu-1": commit, "us-1": ""}
    finally:
        measurements.close()
        server.kill()
    assert state.rollout.result is RolloutResult.FAILED
    assert "errors" in state.rollout.progress["canary"].reason
    assert state.analyses["canary"].metrics["errors"].failed >= 1


def test_the_variable_hosts_of_a_promotion_are_names_of_fleets(session):
    metric = AnalysisMetric("errors", 'max(up{fleet=~"$hosts"})', parse_comparison("<= 1"), compare="others")
    key = MetricKey("1-1", "canary", "errors", 0)
    request = MetricRequest(
        key,
        metric,
        (metric,),
        0.0,
        0.0,
        hosts=frozenset({"us-1", "eu-1"}),
        others=frozenset({"asia-1"}),
        revision="r1",
        kind=MemberKind.FLEET,
    )
    found = VariableReader(session, SystemClock()).read(request)
    assert found == QueryVariables(hosts=("eu-1", "us-1"), other_hosts=("asia-1",))

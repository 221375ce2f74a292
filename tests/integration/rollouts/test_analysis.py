"""The coordinator measures metrics with a real Prometheus, or one that does not answer, and records everything."""

import itertools
import json
import threading
import time
from contextlib import contextmanager
from socket import socket

import pytest
from click.testing import CliRunner

from support.fleets.coordinated import CoordinatedFleet
from support.strategies import plain_hosts, strategy
from support.waiting import wait_until
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Identity
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.publishing.store.assignments import encode_targets
from zkdeployment.rollouts.measuring import (
    MetricMeasurements,
    Sample,
    VariableReader,
    chosen_server,
    instances_by_host,
    metrics_servers,
    take_reading,
)
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.rollouts.verbs import measure_group
from zkdeployment.sandbox.analysis_demo import PrometheusServer
from zkdeployment.strategies.analysis import AnalysisMetric, MetricStage, Outcome, parse_comparison
from zkdeployment.strategies.criteria import OutsideCriterion
from zkdeployment.strategies.group_analysis import ANALYSIS, MetricKey, MetricRequest, due_requests
from zkdeployment.strategies.queries import QueryVariables
from zkdeployment.strategies.state_machine import RolloutResult
from zkdeployment.strategies.strategy import Group, Pace, Selector
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Delete


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    server = PrometheusServer(tmp_path_factory.mktemp("prometheus"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def fleet(zookeeper):
    with Session(zookeeper) as session:
        yield CoordinatedFleet(zookeeper, session)


def metric(query="vector(0.5)", passes="<= 1", **fields):
    return AnalysisMetric("errors", query, parse_comparison(passes), **fields)


def analysed(*metrics, name="canary", hosts="a", parents=()):
    pace = Pace(bake_time=120.0, progress_deadline=60.0, analysis=metrics or (metric(),))
    return Group(name, critical=True, depends_on=parents, selectors=(Selector(frozenset(hosts)),), pace=pace)


@contextmanager
def measuring(fleet, **urls):
    """Yield a criterion that asks these servers, and the event of its answers."""
    answered = threading.Event()
    settings = {name: MetricsSettings(url=url, timeout=30.0) for name, url in urls.items()}
    reader = VariableReader(fleet.session, SystemClock())
    measurements = MetricMeasurements(metrics_servers(settings), reader.read, SystemClock(), answered.set)
    measurements.start()
    try:
        yield OutsideCriterion(ANALYSIS, lambda: None, lambda: None, measurements.read), answered
    finally:
        measurements.close()


def run(fleet, daemon, answered, seconds=600):
    """Run cycles and wait for the answers of servers, until the rollout ends or the time is over."""
    daemon.run_cycle()
    end = fleet.clock.time + seconds
    while fleet.clock.time < end and fleet.running.ended is None:
        fleet.work()
        while daemon.run_cycle() == 0:
            pass
        if not asks(fleet):
            fleet.clock.time += 15
        elif answered is not None:
            answered.wait(10)
            answered.clear()
    return fleet.running


def asks(fleet):
    return any(not request.is_ahead for request in due_requests(fleet.running, fleet.clock.time))


def test_a_group_passes_by_the_values_of_prometheus_and_the_node_keeps_every_measurement(fleet, prometheus):
    fleet.register(plain_hosts("ab"))
    fleet.publish("r1", strategy(analysed(metric('vector(0.5) unless up{host=~"$hosts"}')), analysed(name="rest")))
    with (
        measuring(fleet, main=prometheus.url) as (criterion, answered),
        fleet.coordinator(criteria=[criterion]) as daemon,
    ):
        over = run(fleet, daemon, answered)
    assert over.rollout.result is RolloutResult.SUCCESS
    progress = over.analyses["canary"].metrics["errors"]
    assert (progress.stage, progress.passed) == (MetricStage.PASSED, 3)
    assert [(m.outcome, m.value, m.limit, m.server) for m in progress.measurements] == [
        (Outcome.PASSED, 0.5, 1.0, "main")
    ] * 3
    assert over.analyses["canary"].variables_of(progress.measurements[0]) == QueryVariables(hosts=("a",))


def test_a_group_fails_by_the_values_of_prometheus(fleet, prometheus):
    fleet.register(plain_hosts("a"))
    fleet.publish("r1", strategy(analysed(metric("vector(7)", failure_limit=1))))
    with (
        measuring(fleet, main=prometheus.url) as (criterion, answered),
        fleet.coordinator(criteria=[criterion]) as daemon,
    ):
        over = run(fleet, daemon, answered)
    assert over.rollout.result is RolloutResult.FAILED
    assert fleet.version is None
    assert "metric errors failed: 2 of 2 measurements failed" in over.rollout.progress["canary"].reason


def test_without_a_configured_server_the_group_waits_and_the_reason_is_recorded(fleet):
    fleet.register(plain_hosts("a"))
    fleet.publish("r1", strategy(analysed()))
    with measuring(fleet) as (criterion, _), fleet.coordinator(criteria=[criterion]) as daemon:
        state = run(fleet, daemon, None, seconds=300)
    last = state.analyses["canary"].metrics["errors"].measurements[-1]
    assert last.problem.startswith("no server of metrics is configured; add [metrics NAME]")
    assert state.waiting.startswith("canary waits for 'zkdeployment rollout promote canary'")


def test_a_server_that_accepts_and_never_answers_delays_no_grant(fleet):
    """The cycles take as long as without metrics, and another server still answers."""
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        fleet.register(plain_hosts("ab"))
        metrics = [
            AnalysisMetric(f"m{number}", "vector(1)", parse_comparison("<= 1"), interval=10.0)
            for number in range(50)
        ]
        fleet.publish("r1", strategy(analysed(*metrics)))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with measuring(fleet, main=url) as (criterion, _), fleet.coordinator(criteria=[criterion]) as daemon:
            for _ in range(6):
                daemon.run_cycle()
                fleet.work()
            assert fleet.running.active_phase.baking_since is not None
            begun = time.monotonic()
            for _ in range(20):
                fleet.clock.time += 10
                daemon.run_cycle()
            assert time.monotonic() - begun < 60  # not 20 times the limit of the server


def test_a_silent_server_is_not_asked_again_for_the_queries_that_wait(fleet):
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = {"main": MetricsSettings(url=url, timeout=2.0)}
        woken = threading.Event()
        measurements = MetricMeasurements(
            metrics_servers(settings), lambda _: QueryVariables(), SystemClock(), woken.set
        )
        fleet.register(plain_hosts("a"))
        metrics = [AnalysisMetric(f"m{number}", "up", parse_comparison("<= 1")) for number in range(50)]
        fleet.publish("r1", strategy(analysed(*metrics)))
        with fleet.coordinator() as daemon:
            for _ in range(6):
                daemon.run_cycle()
                fleet.work()
        state = fleet.running
        measurements.start()
        begun = time.monotonic()
        measurements.read(state, fleet.clock.time)
        wait_until(lambda: len(measurements.read(state, fleet.clock.time)) == 50, "all answers")
        assert time.monotonic() - begun < 60  # not 50 times the limit of the server
        answers = measurements.read(state, fleet.clock.time)
        assert {each.reading.problem for each in answers.values()} == {"the server did not answer within 2 s"}
        measurements.close()


class KilledError(BaseException):
    """The coordinator was killed."""


def test_coordinators_that_are_killed_after_each_write_reach_the_same_verdict(fleet, prometheus):
    fleet.register(plain_hosts("ab"))
    fleet.publish("r1", strategy(analysed(), analysed(name="rest", hosts="b", parents=("canary",))))
    deaths = itertools.count()

    def die(place):
        if place.startswith("after:"):
            next(deaths)
            raise KilledError

    with measuring(fleet, main=prometheus.url) as (criterion, answered):
        for attempt in range(200):
            answered.clear()
            with fleet.coordinator(f"c{attempt}", die, criteria=[criterion]) as daemon:
                try:
                    daemon.run_cycle()
                except KilledError:
                    continue
            fleet.work()
            if fleet.running.ended is not None:
                break
            if asks(fleet):
                answered.wait(10)
            else:
                fleet.clock.time += 15
    state = fleet.running
    assert state.rollout.result is RolloutResult.SUCCESS
    assert next(deaths) > 10
    for name in ("canary", "rest"):
        progress = state.analyses[name].metrics["errors"]
        assert (progress.stage, progress.passed, progress.failed) == (MetricStage.PASSED, 3, 0)


def test_variables_come_from_hosts_targets_and_registered_instances(fleet):
    fleet.register(plain_hosts("ab"))
    fleet.session.ensure(paths.TARGETS)
    service = Assignment("/shop/web", 1, "web-1.0", "web")
    for path in ("/shop", "/shop/web", "/shop/web/providers"):
        fleet.session.commit(Create(path))
    for host in "ab":
        target = encode_target([service])
        fleet.session.commit(Create(paths.target_path(host), target))
        properties = {"host": host}
        fleet.session.commit(Create(f"/shop/web/providers/10.0.0.{ord(host)}:80", encode(properties)))
    query = 'up{instance=~"$instances", job=~"$service", host=~"$hosts", a=~"$others", revision="$revision"}'
    one = metric(query)
    key = MetricKey("1-1", "canary", "errors", 0)
    request = MetricRequest(key, one, (one,), 0.0, 0.0, frozenset("a"), frozenset("b"), "r1")
    found = VariableReader(fleet.session, SystemClock()).read(request)
    assert found == QueryVariables(
        instances=("10.0.0.97:80",),
        hosts=("a",),
        others=("10.0.0.98:80",),
        other_hosts=("b",),
        revision=("r1",),
        service=("/shop/web",),
    )


def test_the_value_before_is_that_of_instances_which_left_with_the_deployment(fleet, prometheus):
    fleet.register(plain_hosts("a"))
    compared = metric('vector(3) unless up{instance=~"$instances"}', "<= 2 * before")
    fleet.publish("r1", strategy(analysed(compared)))
    fleet.session.ensure(paths.TARGETS)
    instance = "/shop/web/providers/10.0.0.1:80"
    for path in ("/shop", "/shop/web", "/shop/web/providers"):
        fleet.session.commit(Create(path))
    fleet.session.commit(Create(paths.target_path("a"), encode_target([Assignment("/shop/web", 1, "w-1", "w")])))
    fleet.session.commit(Create(instance, encode({"host": "a"})))
    read = []
    reader = VariableReader(fleet.session, SystemClock())

    def record(request):
        read.append((request.is_ahead, reader.read(request)))
        return read[-1][1]

    answered = threading.Event()
    servers = metrics_servers({"main": MetricsSettings(url=prometheus.url, timeout=30.0)})
    measurements = MetricMeasurements(servers, record, SystemClock(), answered.set)
    measurements.start()
    criterion = OutsideCriterion(ANALYSIS, lambda: None, lambda: None, measurements.read)
    with fleet.coordinator(criteria=[criterion]) as daemon:
        while daemon.run_cycle() == 0:
            pass
        wait_until(lambda: read, "the variables")
        assert read[:1] == [(True, QueryVariables(instances=("10.0.0.1:80",)))]

        def is_recorded():
            daemon.run_cycle()
            return bool(fleet.running.analyses)

        wait_until(is_recorded, "the variables are recorded")
    measurements.close()
    # Another coordinator continues, whose memory is empty.
    reader = VariableReader(fleet.session, SystemClock())
    measurements = MetricMeasurements(servers, record, SystemClock(), answered.set)
    measurements.start()
    criterion = OutsideCriterion(ANALYSIS, lambda: None, lambda: None, measurements.read)
    with fleet.coordinator(criteria=[criterion]) as daemon:
        fleet.session.commit(Delete(instance))  # the host deploys at once
        fleet.work()
        while not fleet.running.analyses["canary"].metrics:
            daemon.run_cycle()
    measurements.close()
    analysis = fleet.running.analyses["canary"]
    assert (analysis.metrics["errors"].before, analysis.before) == (3.0, None)


def encode_target(assignments):
    return next(iter(encode_targets({"x": tuple(assignments)}, ["x"]).values()))


def test_an_instance_belongs_to_the_host_that_it_names_or_that_has_its_address():
    hosts = {
        "h1": (Identity("h1", "h1.example.com"), "192.0.2.1"),
        "h2": (Identity("h2", "h2.example.com"), None),
    }
    providers = {
        "/a": {
            "127.0.0.1:1": {"host": "h1"},
            "127.0.0.1:2": {"host": "h2.example.com"},
            "192.0.2.1:3": {},
            "h2.example.com:4": {"host": 5},
            "[::1]:5": {},
            "h2.example.com:6": {},
        }
    }
    assert instances_by_host(providers, hosts) == {
        "h1": {"127.0.0.1:1", "192.0.2.1:3"},
        "h2": {"127.0.0.1:2", "h2.example.com:6"},
    }


@pytest.mark.parametrize(
    ("server", "names", "found"),
    [
        ("", ["main"], ("main", "")),
        ("main", ["main", "other"], ("main", "")),
        ("", [], ("", "no server of metrics is configured")),
        ("nope", ["main"], ("", "the coordinator's configuration has no [metrics nope]; expected one of: main")),
        (
            "",
            ["a", "b"],
            ("", "several servers of metrics are configured; add to the metric server: with one of: a, b"),
        ),
    ],
)
def test_a_metric_names_its_server_if_there_are_several(server, names, found):
    name, reason = chosen_server(metric(server=server), names)
    assert name == found[0]
    assert reason.startswith(found[1])


def test_the_others_are_measured_at_the_time_of_the_group():
    asked = []

    class Server:
        def query(self, query, at=None):
            asked.append((query, at))
            return Sample(1.0, 1000.25)

    compared = metric('up{host=~"$hosts"}', "<= 2 * others")
    key = MetricKey("1-1", "canary", "errors", 0)
    request = MetricRequest(key, compared, (compared,), 0.0, 0.0, frozenset("a"), frozenset("b"), "r1")
    variables = QueryVariables(hosts=("a",), other_hosts=("b",))
    reading, _, _ = take_reading(Server(), request, lambda _: variables)
    assert (reading.value, reading.others) == (1.0, 1.0)
    assert asked == [('up{host=~"a"}', None), ('up{host=~"b"}', 1000.25)]


# The verb


@pytest.fixture
def rehearse(fleet, prometheus, tmp_path):
    fleet.register(plain_hosts("ab"))
    metrics = (
        metric('vector(0.5) unless up{host=~"$hosts"}'),
        AnalysisMetric("latency", "vector(3)", parse_comparison("<= 1.2 * others")),
        AnalysisMetric("broken", 'nothing{instance=~"$instances"}', parse_comparison("<= 1")),
    )
    fleet.publish("r1", strategy(analysed(*metrics), Group("rest", critical=True)))
    config = tmp_path / "x.cfg"
    config.write_text(f"[zkdeployment]\nzookeeper = {fleet.connection}\n[metrics main]\nurl = {prometheus.url}\n")

    def run(*options):
        return CliRunner().invoke(measure_group, [*options, "--config", str(config)])

    return run


def test_rollout_measure_shows_each_query_with_its_values_and_its_verdict(rehearse):
    result = rehearse("canary", "-o", "json")
    assert result.exit_code == 4
    errors, latency, broken = json.loads(result.stdout)
    assert errors["query"] == 'vector(0.5) unless up{host=~"a"}'
    assert (errors["outcome"], errors["value"], errors["limit"], errors["pass"]) == ("passed", 0.5, 1.0, "<= 1")
    assert (latency["outcome"], latency["value"], latency["others"]) == ("passed", 3.0, 3.0)
    assert (broken["outcome"], broken["problem"]) == ("no data", "no instance of the hosts is registered")
    shown = rehearse("canary", "--metric", "errors")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == ["errors: passed: 0.5 (<= 1)", '  vector(0.5) unless up{host=~"a"}']


def test_rollout_measure_refuses_unknown_groups_and_metrics(rehearse, tmp_path):
    assert "there is no group nope in deployment-strategy; expected one of: canary" in str(
        rehearse("nope").exception
    )
    assert "there is no metric nope in canary; expected one of: errors, latency, broken" in str(
        rehearse("canary", "--metric", "nope").exception
    )
    assert "the group rest has no analysis" in str(rehearse("rest").exception)
    file = tmp_path / "strategy.yaml"
    assert "No such file or directory" in str(rehearse("canary", "--file", str(file)).exception)
    file.write_text("schema: shipyard/DeploymentStrategy/v1\n")
    assert "metadata" in str(rehearse("canary", "--file", str(file)).exception)


def test_rollout_measure_runs_the_queries_of_a_file(rehearse, tmp_path):
    file = tmp_path / "strategy.yaml"
    file.write_text(
        "schema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\ndata:\n  groups:\n"
        "    - {name: new, critical: true, depends_on: [], selectors: [], bake_time: 60, analysis:"
        " [{name: one, query: vector(1), pass: '> 1', server: nope}]}\n"
    )
    result = rehearse("new", "--file", str(file))
    assert result.exit_code == 4
    assert "one: no data: the coordinator's configuration has no [metrics nope]" in result.stdout

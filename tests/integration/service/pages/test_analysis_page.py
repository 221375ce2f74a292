"""The plots of metrics on the page of the rollout, in Chromium."""

import re
import uuid
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from support.fleets.written import WrittenFleet
from support.service import running_service
from support.strategies import begun_rollout, group, plain_hosts, strategy
from support.waiting import wait_until
from support.web.browser import faults_of_pages, log_in
from support.zookeeper import connected
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.host import Host, Identity
from zkdeployment.service.users.user import Role
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricProgress,
    MetricStage,
    Outcome,
    parse_comparison,
)
from zkdeployment.strategies.permission import PhaseReport
from zkdeployment.strategies.queries import QueryVariables
from zkdeployment.strategies.state import ActivePhase
from zkdeployment.strategies.state_machine import next_task, record
from zkdeployment.strategies.strategy import Pace, Selector

HOSTILE = "<img src=x onerror=alert(1)>"
QUERY = 'sum(rate(errors{instance=~"$instances"}[5m]))'
METRICS = (
    AnalysisMetric("errors", QUERY, parse_comparison("<= 0.01"), failure_limit=9),
    AnalysisMetric(HOSTILE, QUERY, parse_comparison("<= 1.2 * others"), dry_run=True),
)


def measurements():
    """Return values with a failed one and a gap, over an hour."""
    for minute in range(60):
        at = minute * 60.0
        if 20 <= minute < 26:
            yield Measurement(at, at, Outcome.NO_DATA, problem=HOSTILE, server="main", variables=0)
        else:
            value = 0.004 + minute % 7 / 2000 + (0.01 if minute in {33, 34} else 0)
            outcome = Outcome.FAILED if value > 0.01 else Outcome.PASSED
            yield Measurement(at, at, outcome, value, 0.01, others=0.005, server="main", variables=0)


def rollout(sequence):
    """Return a rollout whose canary waits for its metrics."""
    pace = Pace(bake_time=3600.0, analysis=METRICS)
    canary = replace(group("canary", percent_successful=100), selectors=(Selector(frozenset("a")),), pace=pace)
    state = begun_rollout(strategy(canary, group("rest", "canary")), plain_hosts("ab"), begun=1.0)
    state = replace(state, sequence=sequence, revision="r1")
    state = replace(state, rollout=record(state.rollout, next_task(state.rollout), ["a"]))
    taken = tuple(measurements())
    progress = MetricProgress(MetricStage.PROVEN, passed=52, failed=2, no_data=6, measurements=taken)
    analysis = GroupAnalysis(
        {"errors": progress, HOSTILE: replace(progress, stage=MetricStage.UNPROVEN)},
        variables=(QueryVariables(instances=("a:80", HOSTILE)),),
        graphs={"main": "https://graphs.example.com"},
    )
    active = ActivePhase(next_task(state.rollout), 1.0, 1.0, {"a": 1.0}, {"a": PhaseReport(1.0)}, baking_since=1.0)
    return replace(state, active_phase=active, analyses={"canary": analysis})


def has_rollout(service):
    try:
        return service.adapters.feed.snapshot().fleet.rollout is not None
    except UnreachableError:
        return False


@pytest.fixture
def page(browser, zookeeper_server):
    chroot = f"/analysis-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as client:
        client.create(chroot)
    connection = f"{zookeeper_server.address}{chroot}"
    with WrittenFleet(connection) as fleet, running_service(connection) as service:
        fleet.register(*(Host(Identity(name, f"{name}.example.com"), "r1") for name in "ab"))
        state = rollout(fleet.publish("r1", "/a\n", strategy=rollout(1).rollout.strategy))
        fleet.begin_rollout(state)
        wait_until(lambda: has_rollout(service), "the rollout is read")
        user = service.add_user(Role.OPERATOR, "ann")
        context = browser.new_context(
            base_url=service.url, reduced_motion="reduce", viewport={"width": 390, "height": 844}
        )
        page = context.new_page()
        page.goto("/rollout")
        log_in(page, user)
        yield page
        context.close()


@pytest.mark.nightly
def test_each_metric_has_a_plot_its_verdict_and_its_query(page, axe_source):
    messages = []
    page.on("dialog", lambda dialog: (messages.append("a dialog"), dialog.dismiss()))
    first, second = page.locator(".metric").all()
    expect(first).to_contain_text("passes so far")
    expect(first).to_contain_text("52 passed, 2 failed, 6 without data")
    expect(second).to_contain_text(HOSTILE)
    expect(second).to_contain_text("only shown")
    expect(first.locator("svg .failure")).to_have_count(2)
    assert first.locator("svg .value").get_attribute("d").count("M") == 2  # a gap is a gap
    assert first.locator("svg .limit").count() == second.locator("svg .others").count() == 1
    first.get_by_text("Query").click()
    expect(first.locator(".query")).to_be_visible()
    assert "(?:a:80|<img src=x onerror=alert\\\\(1\\\\)>)" in first.locator(".query").inner_text()
    expect(first.get_by_role("link")).to_have_attribute("href", re.compile("^https://graphs.example.com/graph"))
    expect(page.locator("#picture a")).to_have_count(2)
    page.locator("#picture a").first.click()
    expect(page.locator("#group-1:target")).to_contain_text("canary")
    assert faults_of_pages(page, axe_source, ["/rollout"]) == []
    assert messages == []

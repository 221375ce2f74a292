"""The files for monitoring systems: alerts and a dashboard that use only metrics of the daemons."""

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml

from support.builders import make_host
from support.pools.builders import POOLS
from support.strategies import begun_rollout
from zkdeployment.agent.telemetry import AgentFacts, agent_metrics
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.daemon.connection_status import ConnectionStatus
from zkdeployment.base.daemon.metrics import DaemonProcess, cycle_metrics
from zkdeployment.pools.feed import pool_metrics
from zkdeployment.pools.rules.snapshot import PoolReading
from zkdeployment.publishing.daemon import follower
from zkdeployment.publishing.daemon.follower import SyncerFacts, syncer_metrics
from zkdeployment.rollouts.daemon import Coordinator
from zkdeployment.service.api.health import ServerFacts, server_metrics
from zkdeployment.strategies.daemon import rollout_metrics
from zkdeployment.strategies.strategy import MemberKind

ETC = Path(__file__).resolve().parents[2] / "etc"
RULES = ETC / "prometheus" / "zkdeployment.yml"
DASHBOARD = ETC / "grafana" / "zkdeployment.json"

PROCESS = DaemonProcess("1.2.3", started=1.0, now=2.0, up=True, link=ConnectionStatus())
LOOKS = {kind.event: 0 for kind in follower.FAILURE_KINDS}
TURNS = {kind.event: 0 for kind in Coordinator.FAILURES}
EXPORTED = {
    metric.name: metric
    for metric in (
        *agent_metrics(PROCESS, make_host(1), AgentFacts(cluster=Cluster("r1"), looked=1.0)),
        *cycle_metrics("syncer", PROCESS, LOOKS),
        *syncer_metrics(SyncerFacts(interval=60)),
        *cycle_metrics("coordinator", PROCESS, TURNS),
        *rollout_metrics(MemberKind.HOST, begun_rollout(), leads=True),
        *server_metrics(ServerFacts(process=PROCESS, further=tuple(pool_metrics(PoolReading(POOLS))))),
    )
}

#: The labels that Prometheus adds to samples.
COLLECTED = {"job", "instance"}


def rules():
    """Return all alerts."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels():
    """Return all panels."""
    return json.loads(DASHBOARD.read_text())["panels"]


def questions():
    """Return every expression of both, as Prometheus gets it."""
    asked = [rule["expr"] for rule in rules()]
    asked += [target["expr"].replace("$job", ".*") for panel in panels() for target in panel["targets"]]
    return asked


def selectors(expression):
    """Return the selectors of an expression; raises ``ValueError`` for an invalid one."""
    selectors = []

    def note(part):
        if isinstance(part, promql_parser.MatrixSelector):
            selectors.append(part.vector_selector)
        elif isinstance(part, promql_parser.VectorSelector):
            selectors.append(part)

    promql_parser.walk(promql_parser.parse(expression), note)
    return {str(match): match for match in selectors}.values()


@pytest.mark.parametrize("expression", questions())
def test_dashboards_and_alerts_use_only_metrics_that_daemons_write(expression):
    asked = list(selectors(expression))
    assert asked
    for query in asked:
        metric = EXPORTED[query.name]
        for matcher in query.matchers.matchers:
            assert matcher.name in COLLECTED | {*metric.labels}
            if matcher.name in metric.labels:
                place = metric.labels.index(matcher.name)
                known = {values[place] for values in metric.samples}
                assert known
                assert {*matcher.value.split("|")} <= known
        if metric.name.endswith("_total"):
            assert "increase(" in expression  # it begins anew with each process


def test_labels_that_are_shown_are_there():
    known = COLLECTED.union(*(metric.labels for metric in EXPORTED.values()))
    shown = re.findall(r"\$labels\.(\w+)", RULES.read_text())
    shown += re.findall(r"{{(\w+)}}", DASHBOARD.read_text()) + re.findall(r"by \((\w+)\)", DASHBOARD.read_text())
    assert shown
    assert {*shown} <= known


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_is_whole(rule):
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Zkdeployment[A-Za-z]+", rule["alert"])
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert all(isinstance(text, str) and text for text in rule["annotations"].values())


def test_the_groups_of_alerts_have_names_of_their_own():
    content = yaml.safe_load(RULES.read_text())
    assert content.keys() == {"groups"}
    assert all(group.keys() == {"name", "rules"} for group in content["groups"])
    for names in ([group["name"] for group in content["groups"]], [rule["alert"] for rule in rules()]):
        assert len(names) == len({*names})


def test_the_panels_of_the_dashboard_do_not_overlap_and_ask_the_chosen_source():
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len({*ids})

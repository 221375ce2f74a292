from dataclasses import replace

import pytest

from support.strategies import begun_rollout, group, plain_hosts, strategy
from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.base.stop import Stop
from zkdeployment.checks.feed import CHECKS_PART
from zkdeployment.checks.rules.instance import CheckChange, LastCheckChanges
from zkdeployment.fleet.events.differences import events_between
from zkdeployment.fleet.events.event import EventKind
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.intents.documents import DeploymentIntentGroup, IntentState
from zkdeployment.intents.feed import INTENTS_PART
from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
from zkdeployment.publishing.records import CommitSummary, SyncerReport
from zkdeployment.strategies.analysis import (
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricProgress,
    MetricStage,
    NoData,
    Outcome,
    parse_comparison,
)
from zkdeployment.strategies.strategy import Pace

A, B = Identity("a", "a.example"), Identity("b", "b.example")
STOP = Stop("?", "?", "?", "stop", "smoke", 5.0, by="jim@desk")


def reading(cluster: Cluster | None = None, sequence: int = 7, **fields: object) -> FleetReading:
    return FleetReading(
        FleetSnapshot(cluster=cluster or Cluster("r1"), published="r1", **fields), sequence=sequence
    )


def test_equal_readings_have_no_events_between_them():
    assert events_between(reading(hosts=(Host(A),)), reading(hosts=(Host(A),))) == ()


def test_a_changed_host_is_an_event_with_its_id_and_its_state():
    before, after = reading(hosts=(Host(A, "r0"), Host(B, "r1"))), reading(hosts=(Host(A, "r1"), Host(B, "r1")))
    (event,) = events_between(before, after)
    assert event.kind is EventKind.HOST
    assert event.to_json() == {
        "id": "a",
        "name": "a.example",
        "state": "converged",
        "version": "r1",
        "step": None,
        "steps": None,
        "error": None,
    }


@pytest.mark.parametrize(
    ("hosts", "outside"),
    [({"hosts": (Host(A, "r1"),)}, "converged"), ({"absent": (KnownHost(A, 1.0, None),)}, "absent")],
)
def test_begin_and_end_of_a_maintenance_are_events_of_the_host(hosts, outside):
    free, held = reading(**hosts), reading(**hosts, maintenance={"a": Maintenance("a", "ann", "disk", 1.0)})
    for before, after, state in ((free, held, "in maintenance"), (held, free, outside)):
        (event,) = events_between(before, after)
        assert (event.kind, event.subject, event.body["state"]) == (EventKind.HOST, "a", state)
    assert events_between(held, replace(held, number=2)) == ()


def test_a_host_in_maintenance_that_leaves_is_still_in_maintenance():
    held = {"maintenance": {"a": Maintenance("a", "ann", "disk", 1.0)}}
    (event,) = events_between(reading(hosts=(Host(A, "r1"),), **held), reading(**held))
    assert event.to_json() == {"id": "a", "name": "a.example", "state": "in maintenance"}


def test_long_errors_of_hosts_are_shortened():
    (event,) = events_between(reading(), reading(hosts=(Host(A, "r0", error="x" * 4000),)))
    assert event.body["error"] == "x" * 300


GROUP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/p1/shop",)})
FIRST = IntentInstance(5, 1.0, "ann", 5, GROUP.apps, ())
ENDED = IntentInstance(5, 1.0, "ann", 8, GROUP.apps, (), terminated=2.0)
FINAL = IntentInstance(5, 1.0, "ann", 8, GROUP.apps, (), terminated=2.0, final=())
SECOND = IntentInstance(9, 3.0, "ann", 9, GROUP.apps, ())


def with_intent(state: IntentState | None = None, *instances: IntentInstance) -> FleetReading:
    intents = {} if state is None else {GROUP.subject: IntentRecord(GROUP, state, instances)}
    return FleetReading(parts={INTENTS_PART.name: intents})


def with_same_intents(reading: FleetReading) -> FleetReading:
    return FleetReading(parts={INTENTS_PART.name: dict(reading.of(INTENTS_PART))})


@pytest.mark.parametrize(
    ("before", "after", "body"),
    [
        (with_intent(), with_intent(IntentState.CREATED), ("Created", None, None, False, False)),
        (
            with_intent(IntentState.APPROVED),
            with_intent(IntentState.INSTANTIATED, FIRST),
            ("Instantiated", "Approved", 5, True, False),
        ),
        (
            with_intent(IntentState.INSTANTIATED, FIRST),
            with_intent(IntentState.TERMINATED, ENDED),
            ("Terminated", "Instantiated", 5, False, True),
        ),
        (
            with_intent(IntentState.TERMINATED, ENDED),
            with_intent(IntentState.TERMINATED, FINAL),
            ("Terminated", "Terminated", 5, False, False),
        ),
        (
            with_intent(IntentState.TERMINATED, FINAL),
            with_intent(IntentState.INSTANTIATED, FINAL, SECOND),
            ("Instantiated", "Terminated", 9, True, False),
        ),
        (with_intent(IntentState.CREATED), with_intent(), (None, "Created", None, False, False)),
    ],
)
def test_a_changed_intent_is_an_event_with_its_state_and_the_outcome_of_its_instance(before, after, body):
    (event,) = events_between(before, after)
    assert (event.kind, event.subject) == (EventKind.INTENT, "p1/store/v1/shop")
    assert tuple(event.body.values()) == body
    assert events_between(after, with_same_intents(after)) == ()


def test_a_host_that_left_is_absent():
    (event,) = events_between(reading(hosts=(Host(A),)), reading(absent=(KnownHost(A),)))
    assert event.to_json() == {"id": "a", "name": "a.example", "state": "absent"}


def test_a_host_that_was_forgotten_while_absent_is_an_event():
    (event,) = events_between(reading(absent=(KnownHost(A), KnownHost(B))), reading(absent=(KnownHost(B),)))
    assert (event.subject, event.body["state"]) == ("a", "forgotten")


def test_a_publication_is_one_event_however_many_hosts_fall_behind():
    hosts = tuple(Host(Identity(f"h{number}", f"h{number}"), "r1") for number in range(100))
    (event,) = events_between(reading(hosts=hosts), reading(Cluster("r2"), 8, hosts=hosts))
    assert (event.kind, event.subject) == (EventKind.PUBLICATION, "8")
    assert event.to_json() == {
        "id": "8",
        "sequence": 8,
        "revision": "r1",
        "wanted": "r2",
        "cluster": "running",
        "refused": None,
        "waiting": 0,
    }


def test_a_commit_that_begins_to_wait_is_an_event_and_another_report_of_it_is_none():
    waiting = SyncerReport("s1", "no", 60, 1.0, 1.0, (CommitSummary("r2", "Ada", "hello 9.9", 1.0),))
    before, after = reading(), replace(reading(), syncer=waiting)

    (event,) = events_between(before, after)
    assert (event.kind, event.body["waiting"]) == (EventKind.PUBLICATION, 1)
    assert events_between(after, replace(after, syncer=replace(waiting, time=61.0))) == ()


def test_a_stop_follows_the_change_of_the_cluster_version():
    events = events_between(reading(), reading(Cluster(None), stops=(STOP,)))
    assert [event.kind for event in events] == [EventKind.PUBLICATION, EventKind.STOP]
    assert events[1].to_json() == {
        "id": "stopped",
        "stops": 1,
        "newest": "stopped by jim@desk: smoke",
        "requested": False,
        "groups": [],
    }


def test_a_resume_is_a_stop_event_without_a_stop():
    events = events_between(reading(Cluster(False), stops=(STOP,)), reading())
    assert [(event.subject, event.body["newest"]) for event in events if event.kind is EventKind.STOP] == [
        ("none", None)
    ]


def test_a_coordinator_that_begins_to_lead_is_an_event_of_the_rollout():
    (event,) = events_between(reading(), reading(coordinator="c1"))
    assert (event.kind, event.subject) == (EventKind.ROLLOUT, "none")


DOWN = CheckChange("id-1", "tcp", "/shop/web", 0, "h1", "nagios1", "active", "awaiting_deprovision")


@pytest.mark.parametrize(
    ("before", "after", "subjects"),
    [
        (None, LastCheckChanges(0, 1, (DOWN,)), ["id-1"]),
        (LastCheckChanges(4, 0), LastCheckChanges(5, 1, (DOWN,)), ["id-1"]),
        (LastCheckChanges(5, 1, (DOWN,)), LastCheckChanges(5, 1, (DOWN,)), []),
        (LastCheckChanges(4, 0), LastCheckChanges(6, 1, (DOWN,)), ["many"]),
        (LastCheckChanges(4, 0), LastCheckChanges(5, 30, (DOWN,)), ["many"]),
        (LastCheckChanges(9, 0), LastCheckChanges(0, 1, (DOWN,)), ["many"]),
    ],
)
def test_check_instances_that_changed_are_events_and_many_are_one(
    before: LastCheckChanges | None, after: LastCheckChanges, subjects: list[str]
):
    events = events_between(
        FleetReading(parts={CHECKS_PART.name: before}), FleetReading(parts={CHECKS_PART.name: after})
    )
    assert [(event.kind, event.subject) for event in events] == [(EventKind.CHECK, found) for found in subjects]
    if subjects == ["id-1"]:
        assert events[0].to_json() == {"id": "id-1", **DOWN.to_json()}


@pytest.mark.parametrize("no_data", [NoData.WAITS, NoData.FAILS])
def test_the_first_failed_measurement_and_the_verdict_of_a_metric_are_events(no_data: NoData):
    metric = AnalysisMetric("errors", "up", parse_comparison("<= 1"), failure_limit=1, no_data=no_data)
    plan = strategy(replace(group("x"), pace=Pace(bake_time=60.0, analysis=(metric,))))

    def after(*measurements, stage=MetricStage.UNPROVEN):
        failed = sum(measurement.outcome is Outcome.FAILED for measurement in measurements)
        no_data = len(measurements) - failed
        progress = MetricProgress(stage, failed=failed, no_data=no_data, measurements=measurements)
        rollout = begun_rollout(plan, plain_hosts("a"), analyses={"x": GroupAnalysis({"errors": progress})})
        return reading(rollout=rollout, governed=True)

    def analyses(before, now):
        return [event for event in events_between(before, now) if event.kind is EventKind.ANALYSIS]

    bad = Measurement(0.0, 1.0, Outcome.FAILED, 3.0, 1.0)
    (first,) = analyses(after(), after(bad))
    assert first.to_json() == {
        "id": "7-1",
        "group": "x",
        "metric": "errors",
        "verdict": "has not passed yet",
        "words": "3, expected <= 1",
    }
    assert analyses(after(bad), after(bad, bad)) == []
    (judged,) = analyses(after(bad), after(bad, bad, stage=MetricStage.FAILED))
    assert judged.body["verdict"] == "failed"
    missing = Measurement(0.0, 1.0, Outcome.NO_DATA, problem="no answer")
    assert len(analyses(after(), after(missing))) == (no_data is NoData.FAILS)
    known = after(bad, bad, stage=MetricStage.FAILED)
    again = replace(known, fleet=replace(known.fleet, rollout=replace(known.fleet.rollout, attempt=2)))
    assert analyses(known, again) == []  # the next attempt keeps the analysis
    assert analyses(reading(), after()) == []

"""A host that is away for a reboot which it has recorded: in status, explanation, locks, monitor and events."""

from dataclasses import replace

import pytest
from nagiosplugin import Range

from support.builders import make_contender, make_host, make_known_host, make_service_lock
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.inventory import absent_hosts
from zkdeployment.base.lock import LockedWork, LockKind
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.fleet.events.differences import events_between
from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.fleet_health import MonitoredFleet, fleet_health
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.fleet.views.locks import by_urgency, lock_views, plan_release
from zkdeployment.fleet.views.maintenance import check_departure
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import HostState, fleet_status, status_changes
from zkdeployment.fleet.views.waits import WaitVerdict, wait_verdict

LIMITS = HealthLimits(Range("15"), Range("30"))
SINCE = 1_790_589_720.0  # 10:02 UTC
STEP = "reboot for /os/web"
REBOOT = RebootRecord("h7", "app7", "r2", 5, "/os/web", 0, STEP, "boot-1", SINCE, SINCE + 900)
SENTENCE = f"reboots since 10:02 UTC for '{STEP}', expected back by 10:17 UTC"
KEPT = make_service_lock(
    make_contender("h1", SINCE), path="/os/web", work=LockedWork("h7", "app7", STEP, SINCE, kept=True)
)


def fleet(*registered, reboot=REBOOT, present="h1"):
    hosts = tuple(make_host(name, version="r2") for name in (present, *registered))
    absent = absent_hosts([make_known_host(7, role="web", time=SINCE - 60)], hosts)
    reboots = {} if reboot is None else {reboot.host_id: reboot}
    targets = frozenset({"web", present})
    return FleetSnapshot(
        Cluster("r2"), "r2", changed=SINCE, hosts=hosts, absent=absent, targets=targets, reboots=reboots
    )


def test_an_absent_host_with_a_record_is_rebooting_and_awaited():
    status = fleet_status(fleet())
    (host,) = (host for host in status.hosts if host.id == "h7")
    assert (host.state, host.since, host.step, host.expected) == (HostState.REBOOTING, SINCE, STEP, True)
    assert status.summary == "2 hosts: 1 converged at r2, 1 rebooting"
    assert (status.converged, wait_verdict(status), wait_verdict(status, "r2")) == (
        False,
        WaitVerdict.WAITING,
        WaitVerdict.WAITING,
    )
    assert f"app7: {SENTENCE}" in list(status_changes(None, status, SINCE))
    bodies = {body["id"]: body.get("reboot", {}) for body in status.to_json()["hosts"]}
    assert (bodies["h1"], bodies["h7"]["deadline"]) == ({}, REBOOT.deadline)


@pytest.mark.parametrize(
    ("snapshot", "state"),
    [
        (fleet(reboot=None), HostState.ABSENT),
        (fleet(reboot=replace(REBOOT, expired=True)), HostState.ABSENT),
        (fleet("h7"), HostState.CONVERGED),
    ],
)
def test_a_host_without_a_record_after_a_reported_failure_or_that_is_back_is_not_rebooting(snapshot, state):
    assert {host.id: host.state for host in fleet_status(snapshot).hosts}["h7"] is state


def explain(snapshot, seconds):
    return explain_host(HostSnapshot(snapshot), "app7", now=SINCE + seconds)


def test_the_explanation_names_the_step_and_the_deadline_and_then_that_the_host_did_not_come_back():
    away = explain(fleet(), 60)
    assert (away.cause, away.sentence) == (Cause.REBOOTING, f"app7 (h7) {SENTENCE}.")
    late = "app7 (h7) did not come back from its reboot; it last reported 16 min ago, at 'reboot for /os/web'."
    assert (explain(fleet(), 960).cause, explain(fleet(), 960).sentence) == (Cause.ABSENT, late)
    assert explain(fleet(reboot=replace(REBOOT, expired=True)), 960).sentence == late
    assert "start the machine" in explain(fleet(), 960).advice[0]


@pytest.mark.parametrize("kind", [LockKind.SERVICE, LockKind.ROLE])
@pytest.mark.parametrize("expired", [False, True])
def test_a_wait_for_a_host_that_reboots_advises_the_release_only_after_the_deadline(kind, expired):
    waiting = make_host("h1", "r1", deploying="r2", step="wait for the lock")
    snapshot = replace(fleet(reboot=replace(REBOOT, expired=expired)), hosts=(waiting,))
    explanation = explain_host(HostSnapshot(snapshot, [replace(KEPT, kind=kind)]), "h1", now=SINCE + 60)
    assert explanation.cause is Cause.LOCK
    assert (f"the holder {SENTENCE}" in explanation.facts) != expired
    assert any("is not registered" in fact for fact in explanation.facts) == expired
    assert any("locks release" in advice for advice in explanation.advice) == expired


def test_a_lock_that_is_kept_over_a_reboot_is_no_orphan_and_its_release_has_an_objection():
    old = make_service_lock(make_contender("h1", SINCE - 60))
    assert by_urgency([KEPT, old], fleet()) == [old, KEPT]
    assert by_urgency([KEPT, old], fleet(reboot=None)) == [KEPT, old]
    (view,) = lock_views([KEPT], fleet())
    assert view.to_json()["reboot"]["step"] == STEP
    assert "reboot" not in lock_views([KEPT], fleet(reboot=None))[0].to_json()
    assert plan_release(KEPT, fleet(), now=SINCE).objection == f"app7 (h7) {SENTENCE}"
    assert plan_release(KEPT, fleet(reboot=None), now=SINCE).objection is None


def test_a_host_that_is_expected_back_is_not_forgotten_with_the_objection_of_its_lock():
    with pytest.raises(RefusedError) as refusal:
        check_departure(fleet(), {}, ["h7"])
    assert str(refusal.value) == f"app7 (h7) {SENTENCE}; wait for the host, or use --force"
    check_departure(fleet(), {}, ["h8"])
    check_departure(fleet(reboot=replace(REBOOT, expired=True)), {}, ["h7"])


@pytest.mark.parametrize(("seconds", "health"), [(60, Health.OK), (901, Health.WARNING)])
def test_the_monitor_warns_only_after_the_deadline(seconds, health):
    verdict = fleet_health(MonitoredFleet(fleet(), [KEPT]), now=SINCE + seconds, limits=LIMITS)
    assert (verdict.health, verdict.line.partition(";")[0]) == (health, f"app7 {SENTENCE}")


def test_a_host_that_leaves_for_a_reboot_and_one_that_does_not_come_back_are_events():
    away, expired = FleetReading(fleet()), FleetReading(fleet(reboot=replace(REBOOT, expired=True)))
    rebooting = {"state": "rebooting", "step": STEP, "deadline": SINCE + 900}
    for before, after, facts in (
        (FleetReading(fleet("h7", reboot=None)), away, rebooting),
        (away, expired, {"state": "absent"}),
        (expired, away, rebooting),
    ):
        (event,) = (each for each in events_between(before, after) if each.subject == "h7")
        assert event.to_json() == {"id": "h7", "name": event.body["name"], **facts}

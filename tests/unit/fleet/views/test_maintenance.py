"""Hosts in maintenance, as views present them, and the rules of the acts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nagiosplugin import Range

from support.builders import make_contender, make_service_lock
from zkdeployment.base.act import Maintenance, given_end
from zkdeployment.base.cluster import Cluster, Mandate
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import KnownHost
from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.views.columns import STEP
from zkdeployment.fleet.views.fleet_health import MonitoredFleet, fleet_health
from zkdeployment.fleet.views.health import Health, HealthLimits, HealthVerdict, host_health
from zkdeployment.fleet.views.instances import ServicesSnapshot
from zkdeployment.fleet.views.maintenance import HostSelection, check_limit, cordoned, select_identities
from zkdeployment.fleet.views.services import InstanceState, services_status
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import HostState, fleet_status
from zkdeployment.fleet.views.waits import WaitVerdict, wait_verdict
from zkdeployment.publishing.rules.convergence import PublicationSnapshot, has_unfinished_hosts, is_converged

NOW = 1_800_000_000.0
CLUSTER = Cluster("r2")
WORDS = "in maintenance until 2027-01-15 10:00 UTC by ann@adm1: new disk"
RECORD = Maintenance("h2", "ann@adm1", "new disk", NOW - 60, NOW + 7200)
LIMITS = HealthLimits(Range("10"), Range("30"))
H1 = Host(Identity("h1", "app1", "web"), "r2", rack="r7")
H2 = Host(Identity("h2", "app2", "web"), "r1", rack="r8", error="exit status 1")


def fleet(*hosts, absent=(), **more):
    return FleetSnapshot(CLUSTER, "r2", NOW - 3600, hosts=hosts, absent=absent, maintenance={"h2": RECORD}, **more)


@pytest.mark.parametrize(
    ("until", "now", "expected"),
    [(None, NOW, True), (NOW + 1, NOW, True), (NOW, NOW, False), (NOW - 1, NOW, False)],
)
def test_a_maintenance_ends_at_its_end(until, now, expected):
    assert Maintenance("h", "ann", "disk", 0.0, until).is_in_force(now) is expected


def test_the_words_name_end_author_and_reason():
    assert str(RECORD) == WORDS
    assert str(Maintenance("h", "ann", "disk", 0.0)) == "in maintenance by ann: disk"


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (None, "in maintenance, being drained, by ann: disk"),
        ({}, "in maintenance, drained (keeps nothing), by ann: disk"),
        ({"/a": "no other host has it"}, "in maintenance, drained (keeps /a: no other host has it), by ann: disk"),
    ],
)
def test_the_words_of_a_drain_name_what_the_host_keeps(kept, words):
    record = Maintenance("h", "ann", "disk", 0.0, drain=True, kept=kept)
    assert str(record) == words
    assert Maintenance.from_json(record.to_json(), host_id="h") == record


@pytest.mark.parametrize(
    ("version", "drain", "mandate"),
    [
        ("r2", True, Mandate("r2", is_drain=True)),
        ("r2", False, None),
        (None, True, None),
        (False, True, None),
    ],
)
def test_only_a_running_fleet_drains_hosts(version, drain, mandate):
    records = {"h": Maintenance("h", "ann", "disk", 0.0, drain=drain)}
    cluster = Cluster(version, maintenance=records)
    assert cluster.drain("h") == mandate
    assert cluster.drain("h2") is None
    assert cluster.mandate("h") is None


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("", None),
        ("2h", NOW + 7200),
        ("1d12h", NOW + 129600),
        ("2027-01-15T10:00Z", NOW + 7200),
        ("2027-01-15T11:00+01:00", NOW + 7200),
    ],
)
def test_an_end_is_a_duration_or_a_time_with_its_zone(text, end):
    assert given_end(text, NOW) == end


@pytest.mark.parametrize("text", ["soon", "2027-01-15T10:00", "0h", "2027-01-15T07:00Z", "-2h"])
def test_other_ends_are_refused(text):
    with pytest.raises(ValueError, match=r"until: expected .*found"):
        given_end(text, NOW)


def test_a_record_that_cannot_be_read_is_a_maintenance_without_an_end():
    found = Maintenance.from_json({"until": "soon", "by": 7}, host_id="h2")
    assert found.is_in_force(NOW)
    assert str(found) == "in maintenance by ?: ?"


def test_an_end_beyond_the_calendar_has_words():
    assert str(Maintenance("h2", "ann", "disk", 0.0, 1e15)) == (
        "in maintenance until 1e+15 seconds since the epoch by ann: disk"
    )


def test_maintenance_withholds_the_mandate_also_of_a_retry():
    held = Cluster("r2", maintenance={"h2": RECORD})
    assert held.mandate("h2") is None
    assert held.mandate("h1") is not None


@pytest.mark.parametrize("absent", [False, True])
def test_neither_failure_nor_absence_of_a_host_in_maintenance_counts(absent):
    known = KnownHost(Identity("h2", "app2"))
    snapshot = fleet(H1, absent=(known,), targets=frozenset({"h2"})) if absent else fleet(H1, H2)
    status = fleet_status(snapshot)
    (row,) = [host for host in status.hosts if host.id == "h2"]
    assert (row.state, row.expected) == (HostState.MAINTENANCE, False)
    assert STEP.text(row) == STEP.page_text(row) == WORDS
    assert row.to_json()["maintenance"]["reason"] == "new disk"
    assert status.converged
    verdict = fleet_health(MonitoredFleet(snapshot), now=NOW, limits=LIMITS)
    assert verdict.health is Health.OK
    assert f"app2 is {WORDS}" in verdict.line


def test_the_check_of_a_host_in_maintenance_is_ok_with_its_words():
    verdict = host_health(None, None, fleet(), now=NOW, limits=LIMITS)
    assert verdict == HealthVerdict(Health.OK, f"Host is {WORDS}")


def drain_of(cluster, *locks, kept=None):
    host = replace(H2, error=None, deploying="r2", step="undeploy /web 0")
    record = replace(RECORD, drain=True, kept=kept)
    snapshot = FleetSnapshot(cluster, "r2", hosts=(H1, host), maintenance={"h2": record})
    (row,) = (row for row in fleet_status(snapshot).hosts if row.id == "h2")
    return explain_host(HostSnapshot(snapshot, locks), "app2", now=NOW).facts, STEP.text(row)


@pytest.mark.parametrize(
    ("cluster", "state"),
    [(Cluster(None), "stopped"), (Cluster(False), "held"), (Cluster("r2", importing="r3"), "importing")],
)
def test_a_drain_waits_for_a_fleet_that_is_stopped_held_or_importing(cluster, state):
    facts, _ = drain_of(cluster)
    assert facts[:2] == (
        "the maintenance began 1 min ago",
        f"no undeployment begins while the fleet is {state}",
    )


def test_a_drain_names_the_lock_for_which_it_waits_or_else_its_step():
    waiting, column = drain_of(
        CLUSTER, make_service_lock(make_contender(1, NOW - 180), make_contender(2, NOW - 40))
    )
    assert waiting[1:3] == (
        "app2 (h2) waits for the lock of /web, which app1 (h1) has held for 3 min",
        "the host is number 1 of 1 in the queue and has waited for 40 s",
    )
    working, _ = drain_of(CLUSTER)
    assert working[1] == "its step is: undeploy /web 0"
    assert column.endswith(": new disk; undeploy /web 0")
    drained, column = drain_of(CLUSTER, kept={})
    assert not any("step" in fact for fact in drained)
    assert column.endswith(": new disk")


def test_why_names_the_maintenance_and_the_act_that_ends_it():
    explanation = explain_host(HostSnapshot(fleet(H1, H2)), "app2", now=NOW)
    assert explanation.cause is Cause.MAINTENANCE
    assert explanation.sentence == f"app2 (h2) is {WORDS}"
    assert "the maintenance began 1 min ago: the host starts nothing" in explanation.facts
    assert "the host failed: exit status 1" in explanation.facts
    assert "uncordon h2" in explanation.advice[0]


def test_all_views_show_a_drained_host_in_the_same_words_and_none_of_its_instances_is_down():
    record = Maintenance("h2", "ann@adm1", "new disk", NOW - 60, drain=True, kept={})
    words = "in maintenance, drained (keeps nothing), by ann@adm1: new disk"
    snapshot = replace(fleet(H1, replace(H2, version=None, error=None)), maintenance={"h2": record})
    targets = {"web": (Assignment("/web", 1, "foo", "foo"),)}
    providers = {"/web": {"app1:80": {"host": "h1", "deployment": "/web 0"}}}
    services = ServicesSnapshot(targets, providers, {"h1": frozenset({Deployment("/web", 0)})})
    status = fleet_status(snapshot, services=services)
    (row,) = [host for host in status.hosts if host.id == "h2"]
    assert STEP.text(row) == STEP.page_text(row) == words
    assert explain_host(HostSnapshot(snapshot), "app2", now=NOW).sentence == f"app2 (h2) is {words}"
    verdict = fleet_health(MonitoredFleet(snapshot), now=NOW, limits=LIMITS)
    assert f"app2 is {words}" in verdict.line
    assert host_health(None, None, snapshot, now=NOW, limits=LIMITS).line == f"Host is {words}"
    assert (status.down.count, status.down.expected) == (0, 1)
    (web,) = services_status(status, snapshot, targets, (), providers).services
    assert web.count(InstanceState.MAINTENANCE) == 1
    assert web.down.count == 0


def test_a_wait_for_a_host_in_maintenance_ends():
    assert wait_verdict(fleet_status(fleet(H1, H2)), hosts=["app2"]) is WaitVerdict.STOPPED


def test_the_summary_names_the_revision_with_the_hosts_that_have_it():
    assert fleet_status(fleet(H1, H2)).summary == "2 hosts: 1 converged at r2, 1 in maintenance"
    assert fleet_status(fleet(H2)).summary == "1 host: 1 in maintenance; r2 is wanted"


def test_no_publication_waits_for_a_host_in_maintenance():
    late = PublicationSnapshot(CLUSTER, hosts=(H1, H2))
    assert not is_converged(late)
    away = PublicationSnapshot(CLUSTER, hosts=(H1, H2), maintenance=frozenset({"h2"}))
    assert is_converged(away)
    assert not has_unfinished_hosts(away)


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (HostSelection(hosts=("h1",)), ["h1"]),
        (HostSelection(hosts=("app2", "h1", "h2")), ["h2", "h1"]),
        (HostSelection(role="web"), ["h1", "h2"]),
        (HostSelection(rack="r7"), ["h1"]),
    ],
)
def test_hosts_are_selected_by_id_name_role_and_rack(selection, ids):
    assert [identity.id for identity in select_identities(fleet(H1, H2), selection)] == ids


@pytest.mark.parametrize(
    "selection", [HostSelection(hosts=("h1", "h9")), HostSelection(role="db"), HostSelection(rack="r9")]
)
def test_a_selection_without_a_host_is_not_found(selection):
    with pytest.raises(NotFoundError, match="status"):
        select_identities(fleet(H1, H2), selection)


@pytest.mark.parametrize("selection", [HostSelection(), HostSelection(("h1",), role="web")])
def test_exactly_one_kind_of_selection_is_given(selection):
    with pytest.raises(ValueError, match="exactly one"):
        selection.check()


def test_the_limit_counts_all_hosts_in_maintenance_once():
    snapshot = fleet(H1, H2)
    check_limit(snapshot, [H2.identity], 1)
    check_limit(snapshot, [H1.identity], None)
    with pytest.raises(
        RefusedError, match=f"2 hosts would be in maintenance: expected at most 1; now app2 is {WORDS}"
    ):
        check_limit(snapshot, [H1.identity], 1)


def test_only_a_maintenance_that_exists_is_ended():
    snapshot = fleet(H1, H2)
    assert cordoned(snapshot, HostSelection(role="web")) == (RECORD,)
    for selection in (HostSelection(hosts=("h1", "h2")), HostSelection(rack="r7")):
        with pytest.raises(RefusedError, match="is not in maintenance"):
            cordoned(snapshot, selection)

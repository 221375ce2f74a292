"""The page of a host: the steps that are left, its deployments, and what publications did on it."""

from dataclasses import replace

import pytest

from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment, Deployment, HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.publication import Origin
from zkdeployment.base.stop import LiveOutput
from zkdeployment.fleet.explanations.explanation import Advice
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.records import PublicationRecord
from zkdeployment.service.views.frame import ActLink
from zkdeployment.service.views.hosts import advice_lines, host_view, live_view

NOW = 10_000.0
IDENTITY = Identity("h1", "h1.example.com", "web")
TARGETS = {"web": (Assignment("/shop/web", 1, "shop-web", "shop-web", version="1.3"),)}
MARKERS = (
    Marker(Deployment("/shop/old", 0), "shop-old", "shop-old", version="1.0"),
    Marker(Deployment("/shop/web", 0), "shop-web", "shop-web"),
)


def view(host, *, known=None, targets=None, records=()):
    snapshot = FleetSnapshot(Cluster("r2"), published="r2", hosts=(host,))
    (status,) = fleet_status(snapshot).hosts
    explanation = explain_host(HostSnapshot(snapshot), "h1", now=NOW)
    return host_view(status, explanation, snapshot, known, targets or {}, records, now=NOW)


def behind(**fields):
    return replace(Host(IDENTITY, "r1", since=9_900.0), **fields)


def test_the_steps_that_are_left_are_listed_with_script_and_lock():
    found = view(behind(), known=KnownHost(IDENTITY, Inventory(), 9_000.0), targets=TARGETS)

    steps = [step for step, _ in found.steps]
    assert any(step.startswith("deploy /shop/web 0 (shop-web 1.3)") for step in steps)
    assert any("under the lock of /shop/web" in effect for _, effect in found.steps)
    assert found.steps_unknown == ""


def test_unknown_steps_show_the_reason():
    assert view(behind()).steps_unknown == "The host has not reported its inventory."
    assert "deploys now" in view(behind(deploying="r2", steps=(1, 4), step="deploy /shop/web 0")).steps_unknown
    conflict = TARGETS | {"h1": TARGETS["web"]}
    known = KnownHost(IDENTITY, Inventory(), 9_000.0)
    assert "would refuse" in view(behind(), known=known, targets=conflict).steps_unknown


@pytest.mark.parametrize(("completed", "revision"), [({7: "r1"}, "r1"), ({}, "not known")])
def test_an_absent_host_shows_the_revision_that_it_completed_last(completed, revision):
    known = KnownHost(IDENTITY, Inventory(), 9_000.0, completed=7)
    snapshot = FleetSnapshot(
        Cluster("r2"), published="r2", absent=(known,), completed=completed, disappeared={"h1": NOW - 90}
    )
    (status,) = fleet_status(snapshot).hosts
    explanation = explain_host(HostSnapshot(snapshot, known=known), "h1", now=NOW)

    found = host_view(status, explanation, snapshot, known, {}, (), now=NOW)

    assert ("Revision", revision) in found.facts
    assert explanation.facts[0] == "the host disappeared 1 min ago"


def test_a_converged_host_has_no_plan():
    found = view(behind(version="r2"), known=KnownHost(IDENTITY, Inventory()), targets=TARGETS)

    assert (found.steps, found.steps_unknown) == ((), "")


def test_deployments_that_are_wanted_or_present_are_shown_together():
    known = KnownHost(IDENTITY, Inventory(markers=MARKERS), 9_000.0)

    old, web = view(behind(), known=known, targets=TARGETS).deployments

    assert (old.service, old.wanted, old.deployed, old.package) == ("/shop/old", "", "1.0", "shop-old")
    assert (web.service, web.wanted, web.deployed) == ("/shop/web", "1.3", "in an unknown version")
    assert web.href == "/services/shop/web"


def test_facts_and_labels_are_texts():
    host = behind(version=None, former="r1", rack="r7", tags=("canary",), labels={"zone": "b"})

    found = view(host)

    assert ("Revision", "none; r1 before the unfinished deployment") in found.facts
    assert found.labels == ("rack r7", "canary", "zone: b")
    working = view(behind(deploying="r2", steps=(1, 4), step="deploy /shop/web 0"))
    assert ("Step", "1 of 4 done; now: deploy /shop/web 0") in working.facts


def test_the_history_has_only_publications_with_a_result_of_the_host():
    result = HostResult("h1", "h1.example.com", 9_500.0, 61.0, "boom")
    records = (
        PublicationRecord(
            "r2", 9_400.0, 7, origin=Origin("Jane <j@x>", "Web 1.3", 9_300.0), results={"h1": result}
        ),
        PublicationRecord("r1", 9_000.0, 6),
    )

    (publication,) = view(behind(), records=records).history

    assert (publication.revision, publication.href, publication.subject) == ("r2", "/history/7", "Web 1.3")
    assert (publication.took, publication.outcome) == ("1 min", "failed: boom")


def live(output=None, **fields):
    snapshot = FleetSnapshot(Cluster("r2"), published="r2", hosts=(behind(**fields),))
    (status,) = fleet_status(snapshot).hosts
    return live_view(status, output, NOW)


def test_only_a_host_that_deploys_now_has_live_output():
    output = LiveOutput("h1", "r2", "deploy /shop/web 0", NOW - 2, "unpacking\n", "/var/log/zkdeployment/web.log")
    assert live(output) is None
    assert live(output, deploying="r2", step="waits to deploy: the group has not begun") is None
    found = live(output, deploying="r2", step="deploy /shop/web 0", steps=(1, 4))
    assert (found.href, found.step, found.text) == ("/hosts/h1/output", "deploy /shop/web 0", "unpacking\n")
    assert (found.at.age, found.place) == ("2 s ago", "in /var/log/zkdeployment/web.log")


def test_the_live_output_of_a_host_that_has_not_answered_names_the_present_step():
    found = live(deploying="r2", step="deploy /shop/web 0", steps=(1, 4))
    assert (found.step, found.text, found.at) == ("deploy /shop/web 0", "", None)


def test_advice_has_a_link_where_there_is_one_and_the_command_otherwise():
    on_host = "on the host: the output is under /var/log/zkdeployment"
    resume = Advice("repair it, then 'zkdeployment resume'", "resume", "repair it, then resume the fleet")
    release = Advice("zkdeployment locks release db", "release", "release the lock", lock="db")
    asked = []

    def link_of(target, values):
        asked.append((target, values))
        return ActLink("Resume", "/acts/resume") if target == "resume" else None

    lines = advice_lines((on_host, resume, release), link_of)
    assert [line.text for line in lines] == [
        on_host,
        "repair it, then resume the fleet",
        "zkdeployment locks release db",
    ]
    assert [line.link is not None for line in lines] == [False, True, False]
    assert asked == [("resume", {}), ("release", {"lock": "db"})]


def test_a_failed_host_shows_the_last_lines_of_its_script():
    assert view(behind(error="exit status 1", output="starting\nboom")).last_lines == "starting\nboom"
    assert view(behind(error="no repository has hello 9.9")).last_lines == ""

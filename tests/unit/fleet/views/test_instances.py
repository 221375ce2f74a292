"""Which instances are down: their hosts have to run them, and they are not registered."""

import io
from typing import Any

import pytest
from nagiosplugin import Range
from rich.console import Console

from support.builders import make_host, make_known_host
from support.strategies import begun_rollout, ended_rollout, group, plain_hosts, strategy
from zkdeployment.base.act import Maintenance
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.deployment import Assignment, Deployment
from zkdeployment.base.host import Host
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.stop import LackingGroup
from zkdeployment.cli.verbs.status import render_screen, render_table
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.views.fleet_health import MonitoredFleet, fleet_health
from zkdeployment.fleet.views.health import Health, HealthLimits
from zkdeployment.fleet.views.instances import ServicesSnapshot
from zkdeployment.fleet.views.services import services_status
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status, status_changes, undecided_hosts
from zkdeployment.fleet.views.waits import WaitVerdict, wait_verdict
from zkdeployment.service.views.fleet import Tone, deployment_verdict, fleet_problems

NOW = 100_000.0
WEB = Assignment("/web", 2, "web", "web", version="1")
ONE_WEB = Assignment("/web", 2, "web", "web", version="1", registers_one=True)
DB = Assignment("/db", 1, "db", "db", version="1")
TARGETS = {"app1": (WEB, DB), "app2": (WEB,)}


def instance(host: str, number: int, path: str = "/web") -> dict[str, Any]:
    """Return the properties of a registered instance that states its host and its deployment."""
    return {"host": host, "deployment": f"{path} {number}"}


def registered(*instances: dict[str, Any], path: str = "/web") -> dict[str, dict[str, Any]]:
    return {path: {f"192.0.2.1:{port}": properties for port, properties in enumerate(instances)}}


def fleet(*hosts: Host, version: Any = "r2", **fields: Any) -> FleetSnapshot:
    return FleetSnapshot(Cluster(version), "r2", hosts=hosts, **fields)


def inventory(host: int, *numbers: int) -> KnownHost:
    markers = tuple(Marker(Deployment("/web", number), "web", "web") for number in numbers)
    return make_known_host(host, Inventory(markers=markers))


FIRST = (instance("h1", 0), instance("h1", 1))
SECOND = (instance("h2", 0), instance("h2", 1))
H1, H2 = make_host(1, "r2"), make_host(2, "r2")
DONE = ended_rollout(begun_rollout(strategy(group("one", hosts="h1")), plain_hosts(["h1", "h2"])))
OUTSIDE = make_host(2, "r1", deploying="r2", step="waits to prepare: not its turn")
LACKING = make_host(2, "r2", lacking={"p1/store/v1/shop": LackingGroup(frozenset({"/web"}))})


@pytest.mark.parametrize(
    ("snapshot", "providers", "known", "sentence"),
    [
        (fleet(H1, H2), registered(*FIRST, *SECOND), (), ""),
        (fleet(H1, H2), registered(*FIRST, SECOND[0]), (), "1 of 4 instances is down: /web 1 on app2"),
        (fleet(H1), registered(), (), "2 of 2 instances are down: /web 0 on app1, /web 1 on app1"),
        # Instances of a service that never registered are unknown, and so are those that state no host.
        (fleet(H1, H2), {}, (), ""),
        (fleet(H1, H2), registered(*FIRST, {}, {}), (), ""),
        (fleet(H1, H2), registered(*FIRST, {}), (), "1 of 4 instances is down"),
        (fleet(H1), registered({"host": ["h1"], "deployment": {"a": 1}}), (), "1 of 2 instances is down"),
        # An instance that is registered by another host, or in another place, stands for none of these.
        (fleet(H1), registered(FIRST[0], instance("h9", 1)), (), "1 of 2 instances is down: /web 1 on app1"),
        # Hosts that deploy, are absent or in maintenance may stop their instances.
        (fleet(H1, make_host(2, "r1", deploying="r2")), registered(*FIRST), (inventory(2, 0, 1),), ""),
        (fleet(H1, absent=(inventory(2, 0, 1),)), registered(*FIRST), (inventory(2, 0, 1),), ""),
        (
            fleet(H1, H2, maintenance={"h2": Maintenance("h2", "ann", "new disk", 5.0)}),
            registered(*FIRST),
            (inventory(2, 0, 1),),
            "",
        ),
        # Hosts without the published revision have to run what they deployed, whatever keeps them from it.
        *(
            (snapshot, registered(*FIRST), (inventory(2, 0),), "1 of 3 instances is down: /web 0 on app2")
            for snapshot in (
                fleet(H1, make_host(2, "r1")),
                fleet(H1, make_host(2, "r2", error="boom")),
                fleet(H1, make_host(2, "r1"), version=None),
                fleet(H1, OUTSIDE, strategy="s", governed=True, rollout=DONE),
                fleet(H1, LACKING),
            )
        ),
        (fleet(H1, make_host(2, "r1")), registered(*FIRST), (inventory(2),), ""),
        (fleet(make_host(1, "r3"), version="r3"), registered(), (inventory(1),), ""),
        # The instances of all services are counted together.
        (
            fleet(H1),
            {**registered(FIRST[0]), **registered(path="/db")},
            (),
            "2 of 3 instances are down: /db 0 on app1, /web 1 on app1",
        ),
    ],
)
def test_an_instance_is_down_if_its_host_has_to_run_it_and_it_is_not_registered(
    snapshot: FleetSnapshot, providers: dict[str, dict[str, Any]], known: tuple[KnownHost, ...], sentence: str
):
    services = ServicesSnapshot(TARGETS, providers)
    asked = undecided_hosts(snapshot, services)
    read = [host for host in known if host.identity.id in asked]
    status = fleet_status(snapshot, services=services.with_inventories(read))
    assert status.down.sentence == sentence
    assert sum(
        each.down.count for each in services_status(status, snapshot, TARGETS, known, providers).services
    ) == (status.down.count)


@pytest.mark.parametrize(
    ("providers", "down"), [(registered(SECOND[1]), 0), (registered({}), 0), (registered(), 4), ({}, 0)]
)
def test_one_registered_instance_is_enough_where_only_the_active_one_registers(
    providers: dict[str, dict[str, Any]], down: int
):
    services = ServicesSnapshot({"app1": (ONE_WEB,), "app2": (ONE_WEB,)}, providers)
    assert fleet_status(fleet(H1, H2), services=services).down.count == down


@pytest.mark.parametrize(
    ("hosts", "providers", "asked"),
    [
        ((H1, H2), registered(), []),
        ((make_host(1, "r1"), H2), registered(), ["h1"]),
        ((make_host(1, "r1"), make_host(2, "r1")), registered(*FIRST), ["h2"]),
        ((make_host(1, "r1"), make_host(2, "r1")), registered(*FIRST, {}, {}), []),
        ((make_host(1, "r1"), make_host(2, "r1")), {}, []),
    ],
)
def test_inventories_are_read_only_of_hosts_that_are_behind_and_lack_a_registration(
    hosts: tuple[Host, ...], providers: dict[str, dict[str, Any]], asked: list[str]
):
    assert undecided_hosts(fleet(*hosts), ServicesSnapshot(TARGETS, providers)) == asked


DOWN = ServicesSnapshot(TARGETS, registered(*FIRST, SECOND[0]))
SENTENCE = "1 of 4 instances is down: /web 1 on app2"


def test_the_status_of_named_hosts_counts_only_their_instances():
    assert str(fleet_status(fleet(H1, H2), names=["app1"], services=DOWN).down) == ""
    assert str(fleet_status(fleet(H1, H2), names=["app2"], services=DOWN).down) == "1 of 2 instances is down"


def test_a_host_at_the_revision_is_explained_with_its_instances_that_are_down():
    services = ServicesSnapshot(TARGETS, registered(*FIRST, SECOND[0]))
    found = {
        host: explain_host(HostSnapshot(fleet(H1, H2), services=services), host, now=NOW) for host in ("h1", "h2")
    }
    assert found["h1"].sentence.endswith("is at the cluster version r2: nothing to explain.")
    assert found["h2"].sentence.endswith(
        "at the cluster version r2, but 1 of 2 instances is down: /web 1 on app2."
    )
    assert "app2: its process has ended" in found["h2"].advice[0]


def test_each_view_of_the_fleet_says_which_instances_are_down_although_the_revision_is_reached():
    snapshot = fleet(H1, H2)
    good, status = fleet_status(snapshot), fleet_status(snapshot, services=DOWN)
    assert (status.converged, wait_verdict(status)) == (True, WaitVerdict.REACHED)
    assert [*status_changes(good, status, NOW)] == [SENTENCE]
    for view in (render_table(status), render_screen(status, 20, 120, NOW)):
        text = io.StringIO()
        Console(file=text, width=120).print(view)
        assert SENTENCE in text.getvalue()
    assert deployment_verdict(snapshot, status) == (
        Tone.HALTED,
        "1 of 4 instances is down",
        "/web 1 on app2. All 2 hosts have the wanted revision.",
    )
    (problem,) = fleet_problems(snapshot, status, (), NOW)
    assert (problem.title, problem.detail) == ("1 of 4 instances is down", "/web 1 on app2")
    assert [host.href for host in problem.hosts] == ["/hosts/h2"]
    health = fleet_health(
        MonitoredFleet(snapshot, services=DOWN), now=NOW, limits=HealthLimits(Range("15"), Range("30"))
    )
    assert (health.health, health.line) == (Health.WARNING, SENTENCE)
    assert status.to_json()["down"] == {
        "count": 1,
        "of": 4,
        "instances": [{"path": "/web", "number": 1, "host": "h2", "name": "app2"}],
    }

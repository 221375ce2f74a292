"""The contract of the simulated host: a plan has the same effect on it as on a host with a real agent."""

from dataclasses import replace

import pytest

from support.agents import Fleet, HostPackages
from support.hosts.packages import AvailablePackage
from support.hosts.simulated import REPOSITORY, SimulatedHost
from support.waiting import wait_until
from zkdeployment.agent.files.filesystem import Filesystem
from zkdeployment.agent.rules.planner import plan
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.base.host import Identity
from zkdeployment.zookeeper.session import Session

#: For each revision the services that it deploys: path → (type, version, number of deployments).
REVISIONS = (
    {"/a": ("foo", "1", 1), "/b": ("bar", "1", 2)},
    {"/a": ("foo", "2", 2), "/b": ("bar", "1", 1)},
    {"/a": ("foo", "1", 1), "/b": ("bar", "2", 0)},
    {"/c": ("foo", "1", 1)},
    {"/c": ("foo-1", None, 3), "/b": ("bar", "2", 1)},
    {},
)


@pytest.fixture
def fleet(tmp_path, zookeeper, client):
    return Fleet(tmp_path, zookeeper, client)


@pytest.fixture
def host(fleet):
    host = fleet.host("h1")
    host.packages = HostPackages(
        host.root, [AvailablePackage(name=package.name, version=package.version) for package in REPOSITORY]
    )
    return host


def publish(fleet, services, former):
    for path in former:
        fleet.remove(path)
    for path, (kind, version, number) in services.items():
        fleet.service(path, kind, version, h1=number)


def real_inventory(host):
    inventory = Filesystem(host.root).inventory(host.packages.installed())
    return replace(inventory, lost_scripts=host.packages.lost_scripts(inventory.deployed_packages))


def effects(inventory):
    """Return what an inventory records, without the paths of scripts: these differ with the host's root."""
    return {
        "packages": inventory.packages,
        "scripts": set(inventory.scripts),
        "directories": inventory.directories,
        "markers": {(marker.application, marker.deployment, marker.package) for marker in inventory.markers},
        "managed": inventory.managed,
        "applications": inventory.applications,
        "controllers": inventory.controllers,
        "lost scripts": inventory.lost_scripts,
    }


def test_a_plan_has_the_same_effects_on_a_simulated_host_as_on_a_host_with_an_agent(fleet, host):
    simulated, identity = SimulatedHost(), Identity("h1", "h1.example.com")
    fleet.set_version("r0")
    former = {}
    with Session(fleet.connection) as session, host.agent():
        host.wait_for_version("r0")  # the agent has created the nodes that it creates
        for number, services in enumerate(REVISIONS, 1):
            revision = f"r{number}"
            publish(fleet, services, former)
            fleet.set_version(revision)
            wanted = ZooKeeperFleet(session).wanted(identity, revision)
            for _ in simulated.take(plan(wanted.assignments, simulated.inventory())):
                pass
            wait_until(lambda revision=revision: host.has_finished(revision), f"the agent has deployed {revision}")
            assert effects(simulated.inventory()) == effects(real_inventory(host)), revision
            former = services

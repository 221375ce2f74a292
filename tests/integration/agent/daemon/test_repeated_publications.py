"""The same revision published again with something new for hosts: a real syncer, real agents and scripts."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from support.agents import Fleet, called, wait_for_versions
from support.fleets.coordinated import CoordinatedFleet
from support.strategies import canary_first
from support.waiting import wait_until
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from support.publishing import Publishing

TREE = "/{top}\n  /app : {package}\n    version = '1.0'\n    /deploy\n{hosts}"
PRUNING = SyncOptions(force=True, prune=True, overrides=GuardOverrides(mass_removal=True))


def service(top: str, package: str, *hosts: str) -> str:
    return TREE.format(top=top, package=package, hosts="".join(f"      /{host}\n" for host in hosts))


class Site:
    """A fleet with two services, the file of the second of which is removed later."""

    def __init__(self, fleet: Fleet, publishing: Publishing) -> None:
        self.fleet = fleet
        self.publishing = publishing
        self.both = service("kept", "foo", "h1", "h2") + service("gone", "bar", "h1")

    def remove_file(self, **more: str | None) -> str:
        """Publish a revision without the file of the second service; its node and its deployments stay."""
        revision = self.publishing.push(service("kept", "foo", "h1", "h2"), **more)
        self.publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
        return revision

    def prune(self) -> None:
        with self.publishing.syncer() as syncer:
            syncer.sync(PRUNING)
        assert self.fleet.get("/gone/app") == {}


@pytest.fixture
def site(fleet: Fleet, publishing: Publishing) -> Site:
    return Site(fleet, publishing)


def test_pruned_services_are_undeployed_on_converged_hosts_and_no_other_host_runs_a_step(site: Site):
    h1, h2 = site.fleet.host("h1"), site.fleet.host("h2")
    site.publishing.push(site.both)
    site.publishing.sync()
    with h1.agent(), h2.agent():
        revision = site.remove_file()
        wait_for_versions([h1, h2], revision)
        assert h1.markers == ["gone:app.0.deployed", "kept:app.0.deployed"]
        before, sequence = site.fleet.calls(), h2.node["sequence"]
        site.prune()
        wait_until(lambda: h1.markers == ["kept:app.0.deployed"], "the pruned service is undeployed")
        wait_for_versions([h1, h2], revision)
        wait_until(lambda: h2.node["sequence"] > sequence, "the other host has the publication, too")
        assert site.fleet.calls()[len(before) :] == called("-u /gone/app 0", "/kept/app 0")
        assert h1.software == ["foo"]
    assert h1.version_on_disk == h2.version_on_disk == revision


def test_a_service_that_is_pruned_while_a_host_deploys_is_undeployed_when_the_host_has_finished(site: Site):
    h1 = site.fleet.host("h1")
    site.publishing.push(site.both)
    site.publishing.sync()
    with h1.agent():
        h1.wait_for_version(site.publishing.version)
        site.fleet.journal.unlink()
        block = h1.block()
        revision = site.remove_file()
        wait_until(lambda: site.fleet.calls() == ["h1 start /gone/app 0"], "the host deploys")
        site.prune()
        block.unlink()
        wait_until(lambda: h1.markers == ["kept:app.0.deployed"], "the pruned service is undeployed")
        h1.wait_for_version(revision)


def test_a_host_that_was_killed_before_it_undeployed_a_pruned_service_undeploys_it_later(site: Site):
    h1 = site.fleet.host("h1")
    site.publishing.push(site.both)
    site.publishing.sync()
    with h1.agent():
        revision = site.remove_file()
        h1.wait_for_version(revision)
    site.prune()
    with h1.process(failpoints="after:give-up-version=kill") as killed:
        killed.wait(60)
    assert (h1.version_on_disk, len(h1.markers)) == (None, 2)
    with h1.agent():
        h1.wait_for_version(revision)
    assert h1.markers == ["kept:app.0.deployed"]


def test_with_a_strategy_a_host_waits_for_its_group_before_it_undeploys_a_pruned_service(
    site: Site, zookeeper: str
):
    h1, h2 = site.fleet.host("h1"), site.fleet.host("h2")
    strategy = canary_first({"node_names": ["h2"]})
    with ExitStack() as stack:
        for host in (h1, h2):
            stack.enter_context(host.agent())
        wait_until(lambda: h1.node and h2.node, "both are registered")
        session = stack.enter_context(Session(zookeeper))
        site.publishing.push(site.both, strategy_yaml=strategy)
        site.publishing.sync(force=True)
        with CoordinatedFleet(zookeeper, session).coordinating():
            wait_for_versions([h1, h2], site.publishing.version)
            revision = site.remove_file(strategy_yaml=strategy)
            wait_for_versions([h1, h2], revision)
        site.prune()
        wait_until(lambda: str(h1.node.get("step", "")).startswith("waits to prepare"), "the host waits")
        assert h1.node["version"] is None
        assert len(h1.markers) == 2
        with CoordinatedFleet(zookeeper, session).coordinating():
            wait_for_versions([h1, h2], revision)
    assert h1.markers == ["kept:app.0.deployed"]

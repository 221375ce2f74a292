"""Rollouts that wait for checks: real ZooKeeper, git, syncer, checks and coordinator; simulated agents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.checks.fleet import check_document, service_tree, system_document
from support.fleets.coordinated import CoordinatedFleet
from support.strategies import plain_hosts
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost, Marker
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.checks.daemon import CheckHealth, CheckJob, deciding_health
from zkdeployment.checks.rules.instance import CheckInstance
from zkdeployment.checks.rules.monitoring_system import CheckResult, ResultState, SystemContact
from zkdeployment.checks.rules.workflow import answer, fetch
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.strategies.criteria import CHECKS, OutsideCriterion
from zkdeployment.strategies.state import RecoveryStage
from zkdeployment.strategies.state_machine import HostProgress, RolloutResult
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {{name: deployment-strategy}}
data:
  on_failure: rollback
  groups:
    - {{name: all, critical: true, depends_on: [], selectors: [],
       success_criteria: {{percent_successful_nodes: 100}}{checked}}}
"""


def _nothing():
    pass


class Site:
    """A fleet of one host, with its checks."""

    def __init__(self, directory: Path, zookeeper: str, session: Session) -> None:
        self.fleet = CoordinatedFleet(zookeeper, session)
        self.branch = Branch(directory)
        self.source = GitSource(str(self.branch.bare), directory / "syncer" / "tree", gap=0)
        self.systems = ZooKeeperMonitoringSystems(session)
        self.instances = ZooKeeperCheckInstances(session)
        self.job = CheckJob(self.instances, ZooKeeperCheckSources(session), self.fleet.clock)
        health = CheckHealth(self.job, self.instances, self.systems)
        self.criterion = OutsideCriterion(CHECKS, _nothing, _nothing, partial(deciding_health, health))

    def publish(self, port: int, checked: str = "") -> str:
        """Publish the service with its check."""
        files: dict[str, str | bytes | None] = {
            "a.zk": service_tree({"web": port}, ["a"]),
            "strategy.yaml": STRATEGY.format(checked=checked),
            "checks.yaml": system_document("nagios1") + check_document("tcp", "nagios1"),
        }
        revision = self.branch.push(files)
        Syncer(self.source, ZooKeeperPublications(self.fleet.session), SystemClock()).sync(SyncOptions(force=True))
        return revision

    def monitor(self, state: ResultState) -> None:
        """Report the deployment, let the monitoring system deploy all checks, and report this result."""
        session, now = self.fleet.session, self.fleet.clock.time
        marker = Marker(Deployment("/shop/web", 0), "web", "web")
        write_inventory(session, KnownHost(Identity("a", "a"), Inventory(markers=(marker,))))
        self.fleet.change(f"{paths.HOSTS}/a", sequence=self.fleet.running.sequence)
        self.job.run()
        ids = [found.id for found in self.instances.scan()]

        def deploy(_: str, instance: CheckInstance | None) -> CheckInstance | None:
            assert instance is not None
            fetched = fetch(instance, now)
            assert fetched is not None
            answered = answer(fetched[0], is_success=True, now=now)
            return answered if isinstance(answered, CheckInstance) else fetched[0]

        self.instances.change(ids, deploy)
        results = {instance: CheckResult(state, "connection refused", now, now + 1) for instance in ids}
        self.systems.record_results("nagios1", results)
        self.systems.note_contact("nagios1", SystemContact(reported=now + 1))


@pytest.fixture
def site(tmp_path: Path, zookeeper: str) -> Iterator[Site]:
    """Yield a fleet that runs the first revision, and whose second one is deployed and bakes."""
    with Session(zookeeper) as session:
        site = Site(tmp_path, zookeeper, session)
        site.fleet.register(plain_hosts("a"), "initial")
        site.publish(80)
        with site.fleet.coordinator() as daemon:
            assert site.fleet.run(daemon.coordinator).rollout.result is RolloutResult.SUCCESS
        yield site


def test_a_check_that_is_ok_completes_the_rollout(site: Site) -> None:
    site.publish(81, ", bake_time: 60, healthy_checks: true")
    with site.fleet.coordinator(criteria=[site.criterion]) as daemon:
        for _ in range(5):
            daemon.run_cycle()
            site.fleet.work()
        site.fleet.wait(daemon.coordinator, 120)
        assert site.fleet.running.ended is None  # the bake time is over, but nothing is known of the check
        site.monitor(ResultState.OK)
        site.fleet.wait(daemon.coordinator, 15)
    assert site.fleet.running.rollout.result is RolloutResult.SUCCESS
    assert site.fleet.running.ended is not None


def test_a_check_that_goes_critical_after_the_deployment_holds_the_rollout_and_takes_it_back(site: Site) -> None:
    site.publish(81, ", bake_time: 60, healthy_checks: true")
    with site.fleet.coordinator(criteria=[site.criterion], commits=site.branch.commits()) as daemon:
        for _ in range(5):
            daemon.run_cycle()
            site.fleet.work()
        site.monitor(ResultState.CRITICAL)
        site.fleet.wait(daemon.coordinator, 45)
        assert site.fleet.running.ended is None
        site.fleet.wait(daemon.coordinator, 15)
        failed = site.fleet.running
        assert failed.rollout.hosts == {"a": HostProgress.FAILURE}
        assert failed.errors == {"a": "check tcp of /shop/web 0 is critical: connection refused"}
        for _ in range(5):
            recovery = site.fleet.running.recovery
            if recovery is not None and recovery.stage is not RecoveryStage.DUE:
                break
            daemon.run_cycle()
    assert recovery is not None
    assert recovery.stage is RecoveryStage.COMMITTED, recovery.reason
    assert "port = 80" in str(site.branch.files()["a.zk"])

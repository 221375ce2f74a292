"""One failed host of a stopped fleet tries again: a real syncer, real agents and scripts, and a real ZooKeeper."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from support.agents import AgentHost, Fleet, called, put_script
from support.fleets.coordinated import ScriptedRollout
from support.waiting import wait_until
from zkdeployment.agent.daemon.agent import AgentCycle, CycleState
from zkdeployment.agent.daemon.waits import AgentWaits
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ConflictError
from zkdeployment.fleet.operator import open_operator
from zkdeployment.programs.main import main
from zkdeployment.publishing.store.builder import import_transactions
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.publishing import Publishing
    from zkdeployment.fleet.operator import OperatorAdapters

TREE = """
/shop
  /db : foo
    version = '1.0'
    /deploy
      /h1
      /h2
  /web : foo
    version = '1.0'
    /deploy
      /h1
"""
STRATEGY = """
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: [], success_criteria: {percent_successful_nodes: 100}}
"""
FAILED = ["h1 start /shop/db 0", "h1 fail /shop/db 0"]


@pytest.fixture
def operator(fleet: Fleet) -> Iterator[OperatorAdapters]:
    with open_operator(fleet.connection) as adapters:
        yield adapters


class Shop:
    """A fleet that the first of two hosts stops; ``cause`` is the file without which it does not fail again."""

    def __init__(self, fleet: Fleet, publishing: Publishing) -> None:
        self.fleet = fleet
        self.publishing = publishing
        self.h1, self.h2 = fleet.host("h1"), fleet.host("h2")
        self.cause = self.h1.fail("/shop/db 0")
        self.revision = ""

    def publish(self, strategy: str | None = None) -> None:
        more = {} if strategy is None else {"strategy_yaml": strategy}
        self.revision = self.publishing.push(TREE, **more)
        self.publishing.sync(force=True)

    def fail(self) -> None:
        """Publish, and wait until the running agent of the first host has stopped the fleet."""
        self.publish()
        self.h1.wait_for_error()
        wait_until(lambda: self.fleet.version is None, "the fleet stops")

    def stop_before_its_turn(self) -> None:
        """Publish with a strategy, and stop the fleet while the first host waits for its grant."""
        with self.h1.agent():
            registered(self.h1)
            self.publish(STRATEGY)
            wait_until(lambda: "waits to prepare" in self.h1.node.get("step", ""), "it waits for its turn")
            self.fleet.set_version(None)
            wait_until(lambda: "step" not in self.h1.node, "the fleet is stopped")

    @contextmanager
    def retried(self) -> Iterator[None]:
        """Run the agent of the first host, which has an error, and retry the host."""
        node = {"name": "h1.example.com", "version": None, "error": "its disk was full"}
        with self.h1.agent():
            registered(self.h1)
            self.fleet.client.set("/hosts/h1", json.dumps(node).encode())
            assert self.retry() == 0
            yield

    def set_by_hand(self, version: object) -> None:
        """Set the cluster version as people do, and keep all other properties of ``/hosts``."""
        data, stat = self.fleet.client.get("/hosts")
        self.fleet.client.set(
            "/hosts", json.dumps({**json.loads(data), "version": version}).encode(), stat.version
        )

    def order_by_hand(self, revision: str) -> None:
        """Write a retry of the first host, as if an operator had ordered it."""
        stamp = self.fleet.client.get("/hosts")[1].version + 1
        self.fleet.set_version(None, retry={"host": "h1", "revision": revision, "stamp": stamp})

    def retry(self, host: str = "h1") -> int:
        """Return the exit code of the verb."""
        with pytest.raises(SystemExit) as end:
            main(["retry", "-z", self.fleet.connection, host, "--reason", "the disk was full"])
        return end.value.code

    @property
    def order(self) -> object:
        """The retry that ``/hosts`` records."""
        return self.fleet.get("/hosts").get("retry")


@pytest.fixture
def shop(fleet: Fleet, publishing: Publishing) -> Shop:
    return Shop(fleet, publishing)


def act(what: str) -> Act:
    return Act("ann", what, "the disk was full", time.time())


def registered(host: AgentHost) -> None:
    wait_until(lambda: bool(host.node), "it is registered")


def test_the_host_alone_deploys_the_revision_and_the_fleet_stays_stopped(shop, operator):
    with shop.h1.agent():
        shop.fail()
        with shop.h2.agent():
            registered(shop.h2)
            shop.cause.unlink()
            assert shop.retry("h1.example.com") == 0
            shop.h1.wait_for_version(shop.revision)
            assert "error" not in shop.h1.node
            assert shop.fleet.version is None
            wait_until(lambda: shop.order.get("succeeded"), "the retry is used up")
            operator.cluster.resume(act("resume"))
            shop.h2.wait_for_version(shop.revision)
            assert shop.order is None
    assert shop.fleet.calls() == [
        *FAILED,
        *called("/shop/db 0", "/shop/web 0"),
        *called("/shop/db 0", host="h2"),
    ]


def test_a_second_failure_ends_the_attempt(shop):
    with shop.h1.agent():
        shop.fail()
        assert shop.retry() == 0
        wait_until(
            lambda: shop.fleet.calls() == FAILED * 2 and shop.order is None, "it fails, and the attempt ends"
        )
        shop.h1.wait_for_error()
    assert shop.fleet.version is None
    assert shop.fleet.get("/zkdeployment/stops/h1")["host"] == "h1"
    assert shop.fleet.calls() == FAILED * 2


def test_the_host_needs_no_turn_in_a_rollout(shop):
    shop.stop_before_its_turn()
    shop.cause.unlink()
    with shop.retried():
        shop.h1.wait_for_version(shop.revision)
    assert shop.fleet.version is None
    assert shop.fleet.calls() == called("/shop/db 0", "/shop/web 0")


def test_the_host_waits_for_its_turn_as_soon_as_the_fleet_is_resumed(shop, operator):
    shop.stop_before_its_turn()
    shop.cause.unlink()
    block = shop.h1.block()
    with shop.retried():
        wait_until(lambda: shop.fleet.calls() == ["h1 start /shop/db 0"], "its first step runs")
        operator.cluster.resume(act("resume"))
        block.unlink()
        wait_until(lambda: "waits to prepare" in shop.h1.node.get("step", ""), "it waits for its turn")
        assert shop.fleet.calls() == called("/shop/db 0")
        sequence = shop.fleet.get("/zkdeployment/targets")["sequence"]
        rollout = ScriptedRollout(shop.fleet, shop.revision, sequence=sequence, published=True)
        rollout.begin()
        rollout.grant("deploy")
        shop.h1.wait_for_version(shop.revision)
        wait_until(lambda: rollout.reports() == {"deploy:h1": None, "prepare:h1": None}, "it reports its part")
    assert shop.fleet.calls() == called("/shop/db 0", "/shop/db 0", "/shop/web 0")


def test_the_rollout_of_a_resumed_fleet_judges_the_failure_of_a_step_that_began_with_the_retry(shop, operator):
    shop.stop_before_its_turn()
    block = shop.h1.block()
    with shop.retried():
        wait_until(lambda: shop.fleet.calls() == ["h1 start /shop/db 0"], "its first step runs")
        operator.cluster.resume(act("resume"))
        sequence = shop.fleet.get("/zkdeployment/targets")["sequence"]
        rollout = ScriptedRollout(shop.fleet, shop.revision, sequence=sequence, published=True)
        rollout.begin()
        block.unlink()
        wait_until(lambda: "exit status" in (rollout.reports().get("prepare:h1") or ""), "it reports its failure")
        assert shop.fleet.version == shop.revision
        assert "exit status" in shop.h1.wait_for_error()
    assert shop.fleet.calls() == FAILED


@pytest.mark.parametrize("versions", [[None], [False, None], ["by hand", None]])
def test_a_version_set_by_hand_ends_the_attempt_although_other_properties_are_kept(shop, versions):
    with shop.h1.agent() as agent:
        shop.fail()
        shop.cause.unlink()
        block = shop.h1.block()
        assert shop.retry() == 0
        wait_until(lambda: shop.fleet.calls() == [*FAILED, "h1 start /shop/db 0"], "its first step runs")
        for version in versions:
            shop.set_by_hand(version)
        assert shop.order is not None
        block.unlink()
        wait_until(lambda: "deploying" not in shop.h1.node, "it starts no other step")
        agent.wait_until_idle()
    assert shop.fleet.calls() == [*FAILED, *called("/shop/db 0")]


def test_a_success_uses_the_retry_up_also_for_a_host_that_lost_its_run_directory(shop):
    with shop.h1.agent():
        shop.fail()
        shop.cause.unlink()
        assert shop.retry() == 0
        wait_until(lambda: shop.order.get("succeeded"), "the retry is used up")
    shutil.rmtree(shop.h1.run)
    with shop.h1.agent() as agent:
        registered(shop.h1)
        agent.wait_until_idle()
    assert shop.fleet.calls() == [*FAILED, *called("/shop/db 0", "/shop/web 0")]


def test_an_agent_that_was_killed_before_it_used_the_retry_up_does_so_at_its_next_start(shop):
    with shop.h1.agent():
        shop.fail()
    shop.cause.unlink()
    put_script(shop.h1.root, "foo")
    with shop.h1.process(failpoints="before:complete-retry=kill") as process:
        registered(shop.h1)
        assert shop.retry() == 0
        process.wait(60)
    assert "succeeded" not in shop.order
    with shop.h1.agent():
        wait_until(lambda: shop.order.get("succeeded"), "the retry is used up")
    assert shop.fleet.calls() == [*FAILED, *called("/shop/db 0", "/shop/web 0")]


def test_nothing_starts_for_a_revision_that_is_not_published(shop):
    with shop.h1.agent() as agent:
        shop.fail()
        shop.cause.unlink()
        shop.order_by_hand("1" * 40)
        agent.wait_until_idle()
        shop.order_by_hand(shop.revision)
        shop.h1.wait_for_version(shop.revision)
    assert shop.fleet.calls() == [*FAILED, *called("/shop/db 0", "/shop/web 0")]


def test_an_import_fails_if_a_host_is_retried_meanwhile(shop):
    with shop.h1.agent():
        shop.fail()
        with Session(shop.fleet.connection) as session:
            read = [paths.HOSTS, paths.TARGETS, paths.MANAGED]
            nodes = dict(zip(read, session.get_many(read), strict=True))
            (operations,) = import_transactions(TreeChange(create={"/by-hand": {}}), {}, nodes)
            shop.cause.unlink()
            assert shop.retry() == 0
            with pytest.raises(ConflictError, match="cannot check /hosts: another client changed it"):
                session.commit(*operations)
        shop.h1.wait_for_version(shop.revision)


def test_a_host_whose_cycles_are_interrupted_again_and_again_slows_down(shop, monkeypatch):
    pauses: list[float] = []

    def wait(waits: AgentWaits, seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 9:
            monkeypatch.undo()
            waits.wake()
        return False

    shop.publish()
    monkeypatch.setattr(AgentCycle, "run", lambda _cycle: CycleState.MOVED)
    monkeypatch.setattr(AgentWaits, "wait_for_wake", wait)
    shop.cause.unlink()
    with shop.h1.agent():
        shop.h1.wait_for_version(shop.revision)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_stop_by_an_operator_ends_the_attempt_between_two_steps(shop, operator):
    with shop.h1.agent():
        shop.fail()
        shop.cause.unlink()
        block = shop.h1.block()
        assert shop.retry() == 0
        wait_until(lambda: shop.fleet.calls() == [*FAILED, "h1 start /shop/db 0"], "its first step runs")
        operator.cluster.stop(act("stop"))
        assert shop.order is None
        block.unlink()
        wait_until(lambda: "deploying" not in shop.h1.node, "it starts no other step")
    assert shop.fleet.calls() == [*FAILED, *called("/shop/db 0")]


def test_an_import_by_hand_ends_the_attempt_because_no_revision_is_published_any_more(shop, capsys):
    with shop.h1.agent():
        shop.fail()
        shop.cause.unlink()
        block = shop.h1.block()
        assert shop.retry() == 0
        wait_until(lambda: shop.fleet.calls() == [*FAILED, "h1 start /shop/db 0"], "its first step runs")
        with Session(shop.fleet.connection) as session:
            ZooKeeperLiveTree(session).import_tree(TreeChange(create={"/by-hand": {}}), roles=(), versions={})
        assert shop.order is None
        block.unlink()
        wait_until(lambda: "deploying" not in shop.h1.node, "it starts no other step")
        assert shop.retry() == 3
        assert "no revision is wholly published" in capsys.readouterr().err
    assert (shop.fleet.version, shop.fleet.calls()) == (None, [*FAILED, *called("/shop/db 0")])


def test_an_agent_that_was_killed_during_the_attempt_continues_it(shop):
    with shop.h1.agent():
        shop.fail()
    shop.cause.unlink()
    put_script(shop.h1.root, "foo")
    with shop.h1.process(failpoints="before:give-up-version=kill") as process:
        registered(shop.h1)
        assert shop.retry() == 0
        process.wait(60)
    with shop.h1.agent():
        shop.h1.wait_for_version(shop.revision)
    assert shop.fleet.version is None
    assert shop.fleet.calls() == [*FAILED, *called("/shop/db 0", "/shop/web 0")]


def test_a_fleet_that_is_not_stopped_needs_no_retry(shop, capsys):
    shop.publish()
    assert shop.retry() == 3
    assert "the fleet is running, and single hosts are retried only while it is stopped" in capsys.readouterr().err


def test_a_host_that_has_not_failed_or_is_away_and_a_stop_by_an_operator_are_refused(shop, operator, capsys):
    with shop.h1.agent(), shop.h2.agent():
        registered(shop.h2)
        shop.fail()
        assert shop.retry("h2") == 3
        assert "h2 cannot try again: it has not failed" in capsys.readouterr().err
        assert shop.retry("h9") == 3
        assert "h9 cannot try again: its agent is not registered" in capsys.readouterr().err
        operator.cluster.stop(act("stop"))
        assert shop.retry() == 3
        assert "stopped by ann: the disk was full; an operator's stop is for all hosts" in capsys.readouterr().err

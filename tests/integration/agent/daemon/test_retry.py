"""One failed host of a stopped fleet tries again: a real syncer, real agents and scripts, and a real ZooKeeper."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from support.agents import AgentHost, Fleet, called, put_script
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.fleet.operator import open_operator
from zkdeployment.programs.main import main
from zkdeployment.publishing.store.live_tree import ZooKeeperLiveTree
from zkdeployment.tree.values import TreeChange
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
            assert shop.order == {"host": "h1", "revision": shop.revision}
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
    with shop.h1.agent():
        registered(shop.h1)
        shop.publish(STRATEGY)
        wait_until(lambda: "waits to prepare" in shop.h1.node.get("step", ""), "it waits for its turn")
        shop.fleet.set_version(None)
        wait_until(lambda: "step" not in shop.h1.node, "the fleet is stopped")
    node = {"name": "h1.example.com", "version": None, "error": "its disk was full"}
    shop.cause.unlink()
    with shop.h1.agent():
        registered(shop.h1)
        shop.fleet.client.set("/hosts/h1", json.dumps(node).encode())
        assert shop.retry() == 0
        shop.h1.wait_for_version(shop.revision)
    assert shop.fleet.version is None
    assert shop.fleet.calls() == called("/shop/db 0", "/shop/web 0")


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
        shop.fail()
        assert shop.retry("h2") == 3
        assert "h2 cannot try again: it has not failed" in capsys.readouterr().err
        assert shop.retry("h9") == 3
        assert "h9 cannot try again: its agent is not registered" in capsys.readouterr().err
        operator.cluster.stop(act("stop"))
        assert shop.retry() == 3
        assert "stopped by ann: the disk was full; an operator's stop is for all hosts" in capsys.readouterr().err

import io

import pytest
from rich.console import Console

from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.base.deployment import Deployment
from zkdeployment.sandbox.demo import FleetObserver


@pytest.fixture
def fleet(client):
    """Two hosts: one is deploying, one failed."""
    write_node(client, "/hosts", {"version": "abc"})
    properties = {"name": "one.sandbox", "version": "abc", "step": "deploy /s/web 0", "steps": [1, 3]}
    two = {"name": "two.sandbox", "version": "abc", "role": "web", "error": "no room left"}
    write_node(client, "/hosts/one", properties)
    write_node(client, "/hosts/two", two)
    client.create("/agent-locks/s,web", makepath=True)
    return client


def test_a_live_table_shows_the_steps_and_the_failures_of_hosts(zookeeper, fleet):  # noqa: ARG001  there is a fleet
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    with FleetObserver(zookeeper, console) as observer, observer.live():
        wait_until(lambda: "no room left" in shown.getvalue(), "the table shows the fleet")
    for word in ("one.sandbox", "deploy /s/web 0", "#..", "two.sandbox", "web"):
        assert word in shown.getvalue()


def test_no_table_where_there_is_no_terminal(zookeeper, fleet):  # noqa: ARG001  there is a fleet
    shown = io.StringIO()
    with FleetObserver(zookeeper, Console(file=shown)) as observer, observer.live():
        assert len(observer.snapshot().hosts) == 2
    assert shown.getvalue() == ""


def test_holders_of_a_lock_are_recorded_in_order(zookeeper, fleet):
    with (
        FleetObserver(zookeeper, Console(file=io.StringIO())) as observer,
        observer.holders(Deployment("/s/web", 0)) as holders,
    ):
        first = fleet.create("/agent-locks/s,web/x__lock__", b"one (1)", sequence=True)
        wait_until(lambda: holders == ["one (1)"], "the first holder is seen")
        fleet.create("/agent-locks/s,web/a__lock__", b"two (2)", sequence=True)
        fleet.delete(first)
        wait_until(lambda: len(holders) == 2, "the second holder is seen")
    assert holders == ["one (1)", "two (2)"]


def test_providers_are_the_registered_instances(zookeeper, fleet):
    with FleetObserver(zookeeper, Console(file=io.StringIO())) as observer:
        assert observer.providers("/s/web") == []
        fleet.create("/s/web/providers/127.0.0.1:80", makepath=True)
        assert observer.providers("/s/web") == ["127.0.0.1:80"]

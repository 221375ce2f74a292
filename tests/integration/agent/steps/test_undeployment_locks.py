"""Undeployments under locks: real agents, real ZooKeeper, real scripts."""

from contextlib import suppress

import pytest
from kazoo.exceptions import NotEmptyError

from support.agents import Fleet, called, wait_for_versions
from support.waiting import wait_until
from support.zookeeper import renew_session

UNDO = "-u /who/myfoo 0"


@pytest.fixture
def hosts(fleet: Fleet):
    """Two hosts at r1 with a deployment of one service each; their scripts block from now on."""
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    first, second = fleet.host("h1"), fleet.host("h2")
    with first.agent(), second.agent():
        wait_for_versions([first, second], "r1")
        fleet.journal.unlink()
        for host in (first, second):
            host.block()
        yield first, second


def started(fleet: Fleet, call: str) -> list[str]:
    """Return the hosts that started a call, in order."""
    return [line.split()[0] for line in fleet.calls() if line.split(" ", 1)[1] == f"start {call}"]


def order(fleet: Fleet, hosts, call: str):
    """Wait until a host started a call, and return both hosts, the starting host first."""
    wait_until(lambda: started(fleet, call), "the first host undeploys")
    (name,) = started(fleet, call)
    return sorted(hosts, key=lambda host: host.id != name)


def free(host) -> None:
    (host.root / "block").unlink()


def waits(host, lock="/who/myfoo") -> bool:
    return f"wait for the lock of {lock}" in host.node.get("step", "")


def test_a_service_with_a_new_application_changes_on_one_host_at_a_time(fleet, hosts):
    fleet.service("/who/myfoo", "bar", "1.0", h1=1, h2=1)
    fleet.set_version("r2")
    first, second = order(fleet, hosts, UNDO)
    wait_until(lambda: waits(second), "the other host waits")
    free(first)
    wait_until(lambda: started(fleet, UNDO) == [first.id, second.id], "the other host undeploys")
    assert fleet.calls()[:-1] == called(UNDO, "/who/myfoo 0", host=first.id), "the first one is done"
    free(second)
    wait_for_versions([first, second], "r2")
    assert fleet.calls()[4:] == called(UNDO, "/who/myfoo 0", host=second.id)
    assert fleet.client.get_children("/agent-locks/who,myfoo") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_service_that_stays_on_other_hosts_is_undeployed_on_one_host_at_a_time(fleet, hosts):
    fleet.service("/who/myfoo", "foo", "1.0", h3=1)
    fleet.set_version("r2")
    first, second = order(fleet, hosts, UNDO)
    wait_until(lambda: waits(second), "the other host waits")
    free(first)
    free(second)
    wait_for_versions([first, second], "r2")
    assert fleet.calls() == called(UNDO, host=first.id) + called(UNDO, host=second.id)


def test_a_service_that_was_removed_from_the_tree_is_undeployed_on_all_hosts_in_parallel(fleet, hosts):
    fleet.remove("/who/myfoo")
    fleet.set_version("r2")
    wait_until(lambda: sorted(started(fleet, UNDO)) == ["h1", "h2"], "both undo it")
    for host in hosts:
        free(host)
    wait_for_versions(hosts, "r2")


def test_a_lock_that_is_lost_between_the_old_and_the_new_application_is_acquired_again(fleet, hosts):
    fleet.service("/who/myfoo", "bar", "1.0", h1=1)
    fleet.remove("/agent-locks/who,myfoo")
    fleet.set_version("r2")
    first, second = order(fleet, hosts, UNDO)
    wait_until(lambda: waits(second), "the other host waits")

    def remove() -> bool:
        with suppress(NotEmptyError):  # the other host joins the queue again
            fleet.remove("/agent-locks/who,myfoo")
            return True
        return False

    wait_until(remove, "the queue is removed")
    free(first)
    free(second)
    wait_for_versions([first, second], "r2")
    own, other = called(UNDO, "/who/myfoo 0"), called(UNDO, host="h2")
    assert [call for call in fleet.calls() if call.startswith("h1")] == own
    assert [call for call in fleet.calls() if call.startswith("h2")] == other
    assert fleet.client.get_children("/agent-locks/who,myfoo") == []


def test_a_host_that_loses_its_session_between_the_two_applications_completes_the_change_before_another_begins(
    fleet,
):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    first, second = fleet.host("h1"), fleet.host("h2", lock_delay="0")
    with first.agent() as agent:
        first.wait_for_version("r1")
        with second.agent():
            second.wait_for_version("r1")
        fleet.journal.unlink()
        block = first.block()
        fleet.service("/who/myfoo", "bar", "1.0", h1=1, h2=1)
        fleet.set_version("r2")
        wait_until(lambda: started(fleet, UNDO), "the first host undeploys")
        renew_session(agent.agent._adapters.fleet._session)
        wait_until(lambda: fleet.get("/zkdeployment/busy/who,myfoo").get("kept"), "the lock is kept")
        with second.agent():
            wait_until(lambda: waits(second), "the other host waits")
            block.unlink()
            wait_for_versions([first, second], "r2")
    own, other = called(UNDO, "/who/myfoo 0"), called(UNDO, "/who/myfoo 0", host="h2")
    assert fleet.calls() == [*own, *other]
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_failing_undeployment_stops_the_fleet_before_its_lock_is_free(fleet, hosts):
    for host in hosts:
        host.fail(UNDO)
    fleet.service("/who/myfoo", "bar", "1.0", h1=1, h2=1)
    fleet.set_version("r2")
    first, second = order(fleet, hosts, UNDO)
    wait_until(lambda: waits(second), "the other host waits")
    free(first)
    free(second)
    wait_until(lambda: not fleet.client.get_children("/agent-locks/who,myfoo"), "the queue is left")
    assert fleet.version is None
    assert started(fleet, UNDO) == [first.id]


def test_hosts_of_a_role_with_a_controller_undeploy_under_the_role_lock(fleet):
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    fleet.service("/who/old", "foo", "1.0", web=1)
    fleet.set_version("r1")
    hosts = [fleet.host(name, role="web") for name in ("h1", "h2")]
    with hosts[0].agent(), hosts[1].agent():
        wait_for_versions(hosts, "r1")
        fleet.journal.unlink()
        for host in hosts:
            host.block()
        fleet.service("/who/myfoo", "bar", "1.0", web=1)
        fleet.remove("/who/old")
        fleet.set_version("r2")
        wait_until(
            lambda: len(started(fleet, "-u /who/old 0")) == 2,
            "deployments of the removed service are undeployed first",
        )
        for host in hosts:
            free(host)
        wait_for_versions(hosts, "r2")
    bracket = [UNDO, "starting-deployments /roles/web", "/who/myfoo 0", "ending-deployments /roles/web"]
    calls = [call for call in fleet.calls() if "/who/old" not in call]
    first, second = dict.fromkeys(call.split()[0] for call in calls)
    assert calls == called(*bracket, host=first) + called(*bracket, host=second)

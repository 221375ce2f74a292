"""The order between services: a real syncer, real agents, real scripts, and a real ZooKeeper."""

import contextlib

import pytest

from support.agents import Fleet, called, put_script, wait_for_versions
from support.fleets.coordinated import CoordinatedFleet
from support.publishing import Publishing
from support.waiting import wait_until
from zkdeployment.agent.daemon.plans import read_plan
from zkdeployment.agent.steps import awaiting_steps
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.strategies.state import Ending
from zkdeployment.zookeeper.session import Session

TREE = """
/shop
  /db : foo
    version = '1.0'
    undeploy = 'last'
    /deploy
{db}
  /web : foo
    version = '1.0'
    deploy_after = ['/shop/db']
    /deploy
{web}
  /mail : foo
    version = '1.0'
    /deploy
{mail}
"""


def tree(**hosts: str) -> str:
    """Return a tree with the services on these hosts."""
    lists = {name: hosts.get(name, "").split() for name in ("db", "web", "mail")}
    return TREE.format(**{name: "\n".join(f"      /{host}" for host in listed) for name, listed in lists.items()})


STRATEGY = """
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - name: all
      critical: true
      depends_on: []
      selectors: []
      success_criteria: {minimum_successful_nodes: 1}
"""


class Shop:
    """A fleet and its repository."""

    def __init__(self, fleet: Fleet, publishing: Publishing) -> None:
        self.fleet = fleet
        self.publishing = publishing

    def publish(self, strategy: str | None = None, **hosts: str) -> str:
        """Publish services on these hosts without waiting for the fleet; return the revision."""
        more = {} if strategy is None else {"strategy_yaml": strategy}
        revision = self.publishing.push(tree(**hosts), **more)
        self.publishing.sync(force=True, overrides=GuardOverrides(mass_removal=True))
        return revision

    def order(self) -> dict[str, list[str]]:
        """Return the finished hosts of each awaited service of the last publication."""
        client, above = self.fleet.client, "/zkdeployment/order"
        (sequence,) = client.get_children(above)
        return {
            name: sorted(client.get_children(f"{above}/{sequence}/{name}"))
            for name in client.get_children(f"{above}/{sequence}")
        }

    def wait_for_step(self, host, step: str) -> None:
        """Wait until a host shows a step."""
        wait_until(lambda: host.node.get("step") == step, f"{host.id} shows {step!r}")

    def wait_for_call(self, line: str) -> None:
        """Wait until the journal has a line."""
        wait_until(lambda: line in self.fleet.calls(), line)


@pytest.fixture
def shop(fleet: Fleet, publishing: Publishing) -> Shop:
    return Shop(fleet, publishing)


def test_a_service_is_deployed_after_another_one_on_all_hosts(shop):
    h1, h2 = shop.fleet.host("h1"), shop.fleet.host("h2")
    with h1.agent(), h2.agent():
        wait_until(lambda: h1.node and h2.node, "both are registered")
        block = h1.block()
        revision = shop.publish(db="h1", web="h1 h2", mail="h2")
        shop.wait_for_step(h2, "waits for /shop/db on h1.example.com")
        assert [call for call in shop.fleet.calls() if call.startswith("h2")] == called("/shop/mail 0", host="h2")
        assert shop.order() == {"shop,db": []}
        assert not shop.fleet.client.exists("/agent-locks/shop,web"), "it waits without the lock"

        # A stop ends the wait; a resumed rollout waits again.
        shop.fleet.set_version(None)
        wait_until(lambda: "step" not in h2.node, "the wait ended")
        shop.fleet.set_version(revision)
        shop.wait_for_step(h2, "waits for /shop/db on h1.example.com")
        block.unlink()
        wait_for_versions([h1, h2], revision)
        calls = shop.fleet.calls()
        assert calls.index("h1 end /shop/db 0") < calls.index("h2 start /shop/web 0")
        assert calls.index("h1 end /shop/db 0") < calls.index("h1 start /shop/web 0")
        assert shop.order() == {"shop,db": ["h1"]}

        # A version that was set by hand has no order.
        shop.fleet.journal.unlink()
        block = h1.block()
        shop.fleet.set_version("by-hand")
        h2.wait_for_version("by-hand")
        block.unlink()
        h1.wait_for_version("by-hand")


def test_a_host_that_was_unknown_at_the_publication_is_awaited_from_when_it_begins(shop):
    h1, h2 = shop.fleet.host("h1"), shop.fleet.host("h2")
    revision = shop.publish(db="h1", web="h2")
    block = h1.block()
    with h1.agent():
        shop.wait_for_call("h1 start /shop/db 0")
        with h2.agent():
            shop.wait_for_step(h2, "waits for /shop/db on h1.example.com")
            block.unlink()
            wait_for_versions([h1, h2], revision)
    assert shop.order() == {"shop,db": ["h1"]}


def test_an_agent_that_was_killed_before_it_recorded_its_deployment_records_it_later(shop):
    h1, h2 = shop.fleet.host("h1"), shop.fleet.host("h2")
    put_script(h1.root, "foo")
    with h2.agent():
        with h1.process(failpoints="before:order=kill") as killed:
            wait_until(lambda: h1.node and h2.node, "both are registered")
            revision = shop.publish(db="h1", web="h2")
            killed.wait()
        assert shop.fleet.calls() == called("/shop/db 0")
        assert shop.order() == {"shop,db": []}
        with h1.agent():
            wait_for_versions([h1, h2], revision)
    assert shop.fleet.calls()[2:] == [*called("/shop/db 0"), *called("/shop/web 0", host="h2")]


def test_a_host_keeps_a_service_until_the_host_that_gains_it_has_it(shop):
    h1, h2, h3 = (shop.fleet.host(name) for name in ("h1", "h2", "h3"))
    with h1.agent(), h2.agent(), h3.agent():
        wait_until(lambda: all(host.node for host in (h1, h2, h3)), "all are registered")
        wait_for_versions([h1, h2, h3], shop.publish(db="h1 h3"))

        # The host that gains the service fails: the fleet stops, and the other host keeps the service.
        shop.fleet.journal.unlink()
        fail = h2.fail("/shop/db 0")
        shop.publish(db="h2 h3", mail="h1")
        h2.wait_for_error()
        assert shop.fleet.version is None
        wait_until(lambda: "step" not in h1.node, "the host ended its deployment")
        assert "shop:db.0.deployed" in h1.markers
        assert not any("-u" in call for call in shop.fleet.calls())

        # The next publication does not forget that the host has not got the service yet.
        fail.unlink()
        block = h2.block()
        revision = shop.publish(db="h2 h3")
        shop.wait_for_step(h1, "waits for /shop/db on h2.example.com")
        assert not any("-u /shop/db" in call for call in shop.fleet.calls())
        block.unlink()
        wait_for_versions([h1, h2, h3], revision)
        calls = shop.fleet.calls()
        assert calls.index("h2 end /shop/db 0") < calls.index("h1 start -u /shop/db 0")
        assert h1.markers == []

        # Where no host gains the service, or it leaves the tree, nothing is waited for.
        wait_for_versions([h1, h2, h3], shop.publish(db="h3"))
        assert shop.fleet.client.get_children("/zkdeployment/order") == []
        wait_for_versions([h1, h2, h3], shop.publish())
    assert h3.markers == []


def test_the_same_revision_published_again_does_not_end_the_wait_for_a_host_that_still_deploys(shop, monkeypatch):
    plans = []

    def read_plan_noted(adapters, identity, revision, **facts):
        plans.append((identity.id, facts["sequence"]))
        return read_plan(adapters, identity, revision, **facts)

    monkeypatch.setattr("zkdeployment.agent.daemon.deployment.read_plan", read_plan_noted)
    h1, h2, h3 = (shop.fleet.host(name) for name in ("h1", "h2", "h3"))
    with h1.agent(), h2.agent(), h3.agent():
        wait_until(lambda: all(host.node for host in (h1, h2, h3)), "all are registered")
        wait_for_versions([h1, h2, h3], shop.publish(db="h3"))
        shop.fleet.journal.unlink()
        block = h1.block()
        revision = shop.publish(db="h1", web="h2")
        shop.wait_for_call("h1 start /shop/db 0")
        for host in (h2, h3):
            shop.wait_for_step(host, "waits for /shop/db on h1.example.com")
        (first,) = shop.fleet.client.get_children("/zkdeployment/order")

        # Somebody changes a node by hand, and a publication of the same revision corrects that.
        shop.fleet.client.set("/shop/mail", b'{"type": "foo", "version": "by hand"}')
        shop.publishing.sync(force=True)
        assert shop.publishing.version == revision
        (second,) = shop.fleet.client.get_children("/zkdeployment/order")
        assert second > first
        for host in (h2, h3):
            wait_until(lambda host=host: (host.id, int(second)) in plans, f"{host.id} plans again")
            shop.wait_for_step(host, "waits for /shop/db on h1.example.com")
        assert shop.fleet.calls() == ["h1 start /shop/db 0"]
        block.unlink()
        wait_for_versions([h1, h2, h3], revision)
        calls = shop.fleet.calls()
        assert calls.index("h1 end /shop/db 0") < calls.index("h2 start /shop/web 0")
        assert calls.index("h1 end /shop/db 0") < calls.index("h3 start -u /shop/db 0")


def test_a_host_fails_if_zookeeper_lost_the_order_and_the_next_publication_writes_it_again(shop):
    h1, h2 = shop.fleet.host("h1"), shop.fleet.host("h2")
    with h1.agent(), h2.agent():
        wait_until(lambda: h1.node and h2.node, "both are registered")
        block = h1.block()
        revision = shop.publish(db="h1", web="h2")
        shop.wait_for_step(h2, "waits for /shop/db on h1.example.com")
        (sequence,) = shop.fleet.client.get_children("/zkdeployment/order")
        shop.fleet.client.delete(f"/zkdeployment/order/{sequence}", recursive=True)
        h2.wait_for_error()
        assert "ZooKeeper has lost which hosts deploy /shop/db before this host" in h2.node["error"]
        block.unlink()
        wait_until(lambda: "deploying" not in h1.node, "the other host stopped, too")
        shop.publishing.sync(force=True)
        wait_for_versions([h1, h2], revision)
    calls = shop.fleet.calls()
    assert calls.index("h1 end /shop/db 0") < calls.index("h2 start /shop/web 0")


def test_hosts_that_wait_for_a_failed_host_fail_as_well_and_the_criteria_of_their_group_decide(
    shop, zookeeper, monkeypatch
):
    monkeypatch.setattr(awaiting_steps, "reading_interval", lambda _hosts: 0.2)
    hosts = [shop.fleet.host(name) for name in ("h1", "h2", "h3", "h4")]
    with contextlib.ExitStack() as stack:
        for host in hosts:
            stack.enter_context(host.agent())
        wait_until(lambda: all(host.node for host in hosts), "all are registered")
        wait_for_versions(hosts, shop.publish(db="h4"))
        session = stack.enter_context(Session(zookeeper))
        stack.enter_context(CoordinatedFleet(zookeeper, session).coordinating())
        failing = hosts[0].fail("/shop/db 0")
        revision = shop.publish(strategy=STRATEGY, db="h1", web="h2", mail="h3")
        rollouts = ZooKeeperFleetReader(session)
        wait_until(lambda: (state := rollouts.snapshot().rollout) and state.ended, "the rollout has ended")
        rollout = rollouts.snapshot().rollout
        assert rollout is not None
        assert (rollout.ending, shop.fleet.version) == (Ending.COMPLETED, revision), "the criteria are met"
        progress = {name: state.value for name, state in rollout.rollout.hosts.items()}
        assert progress == {"h1": "failure", "h2": "failure", "h3": "success", "h4": "failure"}
        reason = "/shop/db is not deployed on h1.example.com, which this host waits for: "
        assert all(rollout.errors[name].startswith(reason) for name in ("h2", "h4"))
        assert hosts[1].node["error"].startswith(reason)
        assert "shop:db.0.deployed" in hosts[3].markers, "the host that loses the service keeps it"
        assert not any(call.startswith("h2 start /shop/web") for call in shop.fleet.calls())

        # A publication of the same revision that somebody asks for lets them try again.
        failing.unlink()
        shop.publishing.sync(force=True)
        wait_for_versions(hosts, revision)
        calls = shop.fleet.calls()
        assert calls.index("h1 end /shop/db 0") < calls.index("h2 start /shop/web 0")
        assert calls.index("h1 end /shop/db 0") < calls.index("h4 start -u /shop/db 0")
        assert calls.count("h3 start /shop/mail 0") == 1, "a host that has the revision does not deploy it again"

from support.strategies import active_rollout, advanced_rollout, begun_rollout
from zkdeployment.agent.rules.waiting import undeployable_hosts
from zkdeployment.base.host import Facts
from zkdeployment.strategies.permission import outline_from_json
from zkdeployment.strategies.state import state_to_json
from zkdeployment.strategies.strategy import Group, Selector, Strategy

HOSTS = {name: Facts() for name in ("db1", "db2", "app1", "app2")}


def group(name, *hosts, depends_on=()):
    return Group(name, critical=False, depends_on=depends_on, selectors=(Selector(names=frozenset(hosts)),))


def outline(state):
    return outline_from_json(state_to_json(state))


def rollout():
    return begun_rollout(Strategy("s", (group("db", "db1", "db2"), group("app", "app1", "app2"))), HOSTS)


def test_hosts_of_the_group_under_way_are_awaited_until_they_fail():
    state = active_rollout(advanced_rollout(rollout(), until="app"), granted=["app1"], failed=["app2"])
    assert undeployable_hosts(outline(state), ["app1", "app2"]) == {"app2": "boom"}


def test_hosts_of_earlier_groups_that_did_not_deploy_never_will():
    state = active_rollout(advanced_rollout(rollout(), "db1", until="app"), granted=["app1"])
    assert undeployable_hosts(outline(state), ["db1"]) == {"db1": "the host failed"}
    assert undeployable_hosts(outline(state), ["unknown"]) == {"unknown": "the host's group was not rolled out"}


def test_hosts_of_earlier_groups_that_succeeded_have_not_failed():
    state = active_rollout(advanced_rollout(rollout(), until="app"), granted=["app1"])
    assert undeployable_hosts(outline(state), ["db1", "db2"]) == {}


def test_between_two_groups_only_hosts_that_failed_are_given_up():
    assert undeployable_hosts(outline(rollout()), [*HOSTS]) == {}
    assert undeployable_hosts(outline(advanced_rollout(rollout(), "db2")), ["db1", "db2"]) == {
        "db2": "the host failed"
    }

"""The health of hosts: each wanted check is active, has a result since the deployment, and is OK."""

from dataclasses import replace

import pytest

from support.checks.instances import KEY, instance_of, version
from zkdeployment.checks.rules.findings import HostHealth, host_health
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration, InstanceKey
from zkdeployment.checks.rules.monitoring_system import CheckResult, ResultState

NAME = "check front-http of /p1/shop/front 0"
DEPLOYED = 100.0


def active(changed=90.0):
    return instance_of(InstanceConfiguration(0, "c0", CheckState.ACTIVE, {"is": "A"}, "nagios1", changed=changed))


def result(state=ResultState.OK, *, reported=101.0, checked=None, output="fine"):
    return CheckResult(state, output, 1.0, reported, checked)


def health(instance, found):
    instances = {} if instance is None else {KEY.id: instance}
    results = {} if found is None else {KEY.id: found}
    return host_health([KEY], instances, results, {"host1": DEPLOYED})


def test_a_host_whose_checks_are_active_and_ok_since_its_deployment_is_healthy():
    assert health(active(), result()) == HostHealth()


def test_a_host_without_checks_is_healthy():
    assert host_health([], {}, {}, {"host1": DEPLOYED}) == HostHealth()


@pytest.mark.parametrize("state", [ResultState.WARNING, ResultState.CRITICAL, ResultState.UNKNOWN])
def test_a_host_with_a_check_that_is_not_ok_is_unhealthy(state):
    found = health(active(), result(state, output="HTTP 503\nmore"))
    assert found == HostHealth(unhealthy={"host1": f"{NAME} is {state.value}: HTTP 503"})


@pytest.mark.parametrize(
    ("instance", "found"),
    [
        (active(), None),
        (active(), result(reported=DEPLOYED)),
        (active(), result(checked=DEPLOYED)),
        (active(), result(reported=DEPLOYED, checked=101.0)),
        (active(changed=101.0), result()),
        (active(), replace(result(ResultState.CRITICAL), config_id="c1")),
    ],
    ids=[
        "none",
        "before the deployment",
        "ran before it, reported later",
        "from the future",
        "before the change",
        "of another configuration",
    ],
)
def test_an_old_result_does_not_count(instance, found):
    assert health(instance, found) == HostHealth(unchecked={"host1": f"{NAME} has no result since the deployment"})


def test_a_check_that_ran_since_the_deployment_and_was_reported_since_its_change_counts():
    assert health(active(changed=102.0), result(reported=103.0, checked=101.0)) == HostHealth()


def test_an_old_critical_result_does_not_count_either():
    assert health(active(), result(ResultState.CRITICAL, reported=50.0)).unhealthy == {}


@pytest.mark.parametrize("state", [state for state in CheckState if state is not CheckState.ACTIVE])
def test_a_check_that_is_not_active_does_not_count_for_the_deployment(state):
    instance = instance_of(version(0, CheckState.ACTIVE, "A"), version(1, state, "B"))
    found = health(instance, result())
    if state is CheckState.AWAITING_DELETION:
        assert found == HostHealth()
    else:
        assert found == HostHealth(unchecked={"host1": f"{NAME} is {state.value}"})


def test_the_reason_of_a_failed_rollout_is_given():
    failed = InstanceConfiguration(0, "c0", CheckState.ROLLOUT_FAILED, {}, "nagios1", reason="no such plugin")
    assert health(instance_of(failed), result()).unchecked == {
        "host1": f"{NAME} is rollout_failed: no such plugin"
    }


def test_a_check_that_does_not_exist_yet_is_waited_for():
    assert health(None, None).unchecked == {"host1": f"{NAME} was not computed yet"}
    assert health(CheckInstance(KEY), None).unchecked == {"host1": f"{NAME} was not computed yet"}


def test_each_host_has_its_own_health():
    other = InstanceKey("front-http", "/p1/shop/front", 0, "host2", (("port", 80),))
    instances = {KEY.id: active(), other.id: active()}
    results = {KEY.id: result(), other.id: result(ResultState.CRITICAL, output="down")}
    found = host_health([KEY, other], instances, results, {"host1": DEPLOYED, "host2": DEPLOYED})
    assert found == HostHealth(
        unhealthy={"host2": "check front-http of /p1/shop/front 0, port 80 is critical: down"}
    )

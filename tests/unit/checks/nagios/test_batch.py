"""Batches: changes from details, and the batch of a synchronization."""

from dataclasses import replace

import pytest

from zkdeployment.checks.nagios.batch import (
    DeployedInstances,
    ObjectChange,
    changed_checks,
    read_change,
    removal_refusal,
    synchronizing_batch,
    update_batch,
)
from zkdeployment.checks.nagios.check import read_check

DETAILS = {
    "configuration": "front-http",
    "config_id": "c1",
    "host": {"id": "h1", "name": "h1", "address": "192.0.2.1"},
    "path": "/front",
    "number": 0,
    "command": "check_http",
    "arguments": [],
    "interval": 60,
    "task": "rollout",
}


def instance(number):
    return f"{number:08d}-89ab-5cde-8f01-23456789abcd"


def check(number):
    return read_check(instance(number), DETAILS)


def rollout(number):
    return ObjectChange(instance=instance(number), config_id="c1", check=check(number))


def removal(number):
    return ObjectChange(instance=instance(number), config_id="c1")


def has_plugin(name):
    return name == "check_http"


def test_a_rollout_brings_the_check():
    assert read_change(instance(1), DETAILS, has_plugin) == rollout(1)


@pytest.mark.parametrize("task", ["deprovision", "delete"])
def test_a_removal_needs_no_usable_check(task):
    assert read_change(instance(1), {"task": task, "config_id": "c1"}, has_plugin) == removal(1)


def test_an_instance_that_is_gone_is_removed_without_an_answer():
    assert read_change(instance(1), None, has_plugin) == ObjectChange(instance=instance(1), answered=False)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"command": "check_nothing"}, "Nagios has no plugin check_nothing; install it in the plugins directory"),
        ({"command": "/bin/sh"}, "expected the bare name of a plugin as command, found '/bin/sh'"),
        ({"task": "dance"}, "expected the task rollout, deprovision or delete, found 'dance'"),
    ],
)
def test_an_impossible_change_has_its_problem(change, problem):
    found = read_change(instance(1), DETAILS | change, has_plugin)
    assert found.problem is not None
    assert problem in found.problem
    assert (found.config_id, found.check, found.answered) == ("c1", None, True)


def test_an_update_changes_the_present_check():
    batch = update_batch({instance(1): check(1), instance(2): check(2)}, [removal(1), rollout(3)])
    assert changed_checks(*batch.bases, batch.changes) == {instance(2): check(2), instance(3): check(3)}


def test_a_synchronization_removes_unknown_checks_and_keeps_those_whose_removal_failed():
    present = {instance(number): check(number) for number in (1, 2, 3, 4, 7)}
    changes = {instance(2): rollout(2), instance(3): removal(3), instance(5): rollout(5)}
    deployed = DeployedInstances(frozenset({instance(1), instance(5)}), frozenset({instance(7)}))
    batch = synchronizing_batch(present, deployed, {instance(2), instance(3), instance(6)}, changes)
    assert [sorted(base) for base in batch.bases] == [sorted(present), [instance(1), instance(3), instance(7)]]
    for base in batch.bases:
        assert sorted(changed_checks(base, batch.changes)) == [instance(number) for number in (1, 2, 5, 7)]


def refusal(present, deployed, changes=None):
    return removal_refusal(synchronizing_batch(present, deployed, frozenset(), changes or {}))


def test_removals_that_the_service_did_not_ask_for_are_limited():
    present = {instance(number): check(number) for number in range(10)}
    active = [instance(number) for number in range(10)]
    assert refusal(present, DeployedInstances(frozenset(active[3:]))) is None
    found = refusal(present, DeployedInstances(frozenset(active[4:])))
    assert found is not None
    assert found.startswith("the service does not know 4 of 10 checks in Nagios, more than 30%")
    assert refusal(present, DeployedInstances(removal_allowed=True)) is None
    assert refusal({instance(1): check(1)}, DeployedInstances()) is None


def test_removals_that_the_service_asks_for_and_rollouts_are_not_limited():
    present = {instance(number): check(number) for number in range(10)}
    removals = {instance(number): removal(number) for number in range(9)}
    assert refusal(present, DeployedInstances(frozenset({instance(9)})), removals) is None
    rollouts = {instance(number): rollout(number) for number in range(10)}
    assert refusal(present, DeployedInstances(), rollouts) is None
    gone = [change.unanswered() for change in removals.values()]
    assert removal_refusal(update_batch(present, gone)) is not None


def test_a_rollout_that_is_impossible_leaves_no_file_of_a_killed_bridge():
    bad = replace(removal(2), problem="there is no such plugin")
    deployed = DeployedInstances()
    batch = synchronizing_batch({instance(2): check(2)}, deployed, {instance(2)}, {instance(2): bad})
    assert batch.changes == (ObjectChange(instance=instance(2), answered=False), bad)


def test_active_checks_of_another_configuration_are_outdated():
    active = frozenset({instance(1), instance(2), instance(3)})
    deployed = DeployedInstances(
        active, frozenset({instance(4)}), {instance(1): "c1", instance(2): "c2", instance(4): "c4"}
    )
    present = {instance(number): "c1" for number in (1, 2, 3, 4, 5)}
    assert deployed.outdated(present) == {instance(2)}

"""The states of check groups."""

from dataclasses import replace

import pytest

from support.checks.instances import KEY
from zkdeployment.base.act import Maintenance
from zkdeployment.checks.documents import CheckGroup, GroupLevel
from zkdeployment.checks.rules.findings import check_findings, group_states
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration
from zkdeployment.checks.rules.monitoring_system import CheckResult, ResultState

GROUP = CheckGroup("quorum", "/p1/shop", 2)


def on(host, state=CheckState.ACTIVE, **key):
    details = {"host": {"name": f"{host}.example.com"}}
    versions = (InstanceConfiguration(0, "c", state, details, "nagios1"),)
    return CheckInstance(replace(KEY, host=host, **key), versions, 0)


def state_of(group, *members, maintenance=()):
    """Return the state of a group; members are instances with their results, ``maintenance`` is that of hosts."""
    instances = {instance.id: instance for instance, _ in members}
    results = {found.id: CheckResult(word, "", 1.0, 2.0) for found, word in members if word is not None}
    away = {host: Maintenance(host, "ann", "new disk", 1.0) for host in maintenance}
    (state,) = group_states([group], check_findings(instances, results, away))
    return state


@pytest.mark.parametrize(
    ("words", "state", "sentence"),
    [
        (
            ["ok", "ok", "critical"],
            "ok",
            "deployments of /p1/shop that are OK: 2 of 3, expected at least 2; not OK: {h3}",
        ),
        (
            ["ok", "critical", "unknown"],
            "critical",
            "deployments of /p1/shop that are OK: 1 of 3, expected at least 2; not OK: {h2}, {h3}",
        ),
        (
            ["ok", None, "warning"],
            "pending",
            "deployments of /p1/shop that are OK: 1 of 3, expected at least 2; not OK: {h3}, {h2}",
        ),
        (["ok"], "critical", "deployments of /p1/shop that are OK: 1 of 1, expected at least 2"),
        ([], "critical", "deployments of /p1/shop that are OK: 0 of 0, expected at least 2"),
    ],
)
def test_a_group_is_ok_if_enough_of_its_deployments_are(words, state, sentence):
    members = [
        (on(f"h{number}"), None if word is None else ResultState(word)) for number, word in enumerate(words, 1)
    ]
    names = {f"h{number}": f"/p1/shop/front 0 on h{number}.example.com" for number in range(1, 4)}
    found = state_of(GROUP, *members)
    assert (found.state, found.sentence) == (state, sentence.format(**names))


def test_a_deployment_is_ok_if_all_its_checks_that_count_are():
    http, disk = on("h1"), on("h1", check="disk")
    members = [(http, ResultState.OK), (disk, ResultState.CRITICAL)]
    one = replace(GROUP, at_least=1, level=GroupLevel.WARNING)
    assert state_of(one, *members).state == "warning"
    assert state_of(replace(one, checks=("front-http",)), *members).state == "ok"
    assert state_of(replace(one, path="/p2"), *members).total == 0
    failed = on("h2", CheckState.ROLLOUT_FAILED)
    assert state_of(one, (failed, None)).failing == ("/p1/shop/front 0 on h2.example.com",)


def test_deleted_instances_do_not_count_and_groups_are_sorted():
    gone = replace(on("h1"), deleted=True)
    assert state_of(GROUP, (gone, ResultState.OK)).total == 0
    states = group_states([GROUP, replace(GROUP, name="a", path="")], ())
    assert [found.group.name for found in states] == ["a", "quorum"]
    assert states[0].to_json() == {
        "name": "a",
        "object": "/",
        "at_least": 2,
        "level": "critical",
        "state": "critical",
        "total": 0,
        "ok": 0,
        "pending": [],
        "failing": [],
        "in_maintenance": [],
    }


@pytest.mark.parametrize(
    ("words", "away", "at_least", "state"),
    [
        (["ok", "ok", "critical"], ["h3"], 2, "ok"),  # the failure of a host in maintenance does not count
        (["ok", "ok", "ok"], ["h2", "h3"], 2, "in maintenance"),  # nor does its success
        (["ok", "critical", None], ["h2", "h3"], 2, "in maintenance"),
        (["critical", "critical", "critical"], ["h1", "h2", "h3"], 2, "in maintenance"),
        ([None, "ok", "ok"], ["h2", "h3"], 2, "in maintenance"),
        ([None, "ok", "ok"], ["h3"], 2, "pending"),
        (["ok", "critical", "ok"], ["h3"], 2, "critical"),  # a host that is not in maintenance fails
        (["critical", "ok", "ok"], ["h2", "h3"], 2, "critical"),
        (["ok", "ok"], ["h2"], 3, "critical"),  # the group lacks a deployment without any maintenance
    ],
)
def test_deployments_in_maintenance_are_neither_ok_nor_failing(words, away, at_least, state):
    members = [
        (on(f"h{number}"), None if word is None else ResultState(word)) for number, word in enumerate(words, 1)
    ]
    found = state_of(replace(GROUP, at_least=at_least), *members, maintenance=away)
    assert found.state == state
    assert found.total == len(words)
    assert found.in_maintenance == tuple(f"/p1/shop/front 0 on {host}.example.com" for host in away)


def test_the_sentence_of_a_group_names_what_is_in_maintenance():
    members = [(on("h1"), ResultState.CRITICAL), (on("h2"), ResultState.OK), (on("h3"), ResultState.OK)]
    assert state_of(GROUP, *members, maintenance=["h2"]).sentence == (
        "deployments of /p1/shop that are OK: 1 of 3, expected at least 2;"
        " not OK: /p1/shop/front 0 on h1.example.com; in maintenance: /p1/shop/front 0 on h2.example.com"
    )

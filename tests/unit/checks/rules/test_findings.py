"""The findings of checks: a word, a subject, a detail, the worst first."""

from dataclasses import replace

from support.checks.instances import KEY, instance_of, version
from zkdeployment.base.act import Maintenance
from zkdeployment.checks.rules.findings import check_findings, known_results
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration
from zkdeployment.checks.rules.monitoring_system import STALE_AFTER, CheckResult, ResultState, SystemContact

NOW = 1000.0
SPEAKING = {"nagios1": SystemContact(reported=NOW)}


def on(host, state, *, reason=""):
    key = replace(KEY, host=host)
    return CheckInstance(key, (InstanceConfiguration(0, "c", state, {}, "nagios1", reason=reason),), 0)


def findings(instances, results, contacts=None, now=NOW):
    found = {instance.id: CheckResult(state, "first\nsecond", 1.0, 2.0) for instance, state in results}
    by_id = {instance.id: instance for instance in instances}
    known = known_results(by_id, found, SPEAKING if contacts is None else contacts, now)
    return [(finding.host, finding.word, finding.detail) for finding in check_findings(by_id, known)]


def test_the_worst_come_first():
    hosts = {state: on(state.value, CheckState.ACTIVE) for state in ResultState}
    failed = on("failed", CheckState.ROLLOUT_FAILED, reason="no such plugin")
    waiting = on("waiting", CheckState.AWAITING_COMPUTATION)
    silent = on("silent", CheckState.ACTIVE)
    results = [(instance, state) for state, instance in hosts.items()]
    assert findings([*hosts.values(), failed, waiting, silent], results) == [
        ("failed", "failed", "rollout_failed: no such plugin"),
        ("critical", "critical", "first"),
        ("unknown", "unknown", "first"),
        ("warning", "warning", "first"),
        ("waiting", "pending", "awaiting_computation"),
        ("silent", "pending", "no result yet"),
        ("ok", "ok", "first"),
    ]


def test_the_results_of_a_silent_monitoring_system_are_unknown():
    active = on("h1", CheckState.ACTIVE)
    expected = [("h1", "unknown", "its monitoring system reports no results any more")]
    assert findings([active], [(active, ResultState.OK)], now=NOW + STALE_AFTER) == [("h1", "ok", "first")]
    assert findings([active], [(active, ResultState.OK)], now=NOW + STALE_AFTER + 1) == expected
    assert findings([active], [(active, ResultState.OK)], {}) == expected


def test_an_instance_that_is_no_longer_deployed_has_no_result():
    gone = [on("h1", CheckState.AWAITING_DELETION), on("h2", CheckState.DEPROVISIONED)]
    leaving = on("h3", CheckState.DEPROVISION_IN_PROGRESS)
    by_id = {instance.id: instance for instance in [*gone, leaving]}
    found = dict.fromkeys(by_id, CheckResult(ResultState.CRITICAL, "down", 1.0, 2.0))
    assert known_results(by_id, found, SPEAKING, NOW).keys() == {leaving.id}


def test_deleted_instances_are_not_shown():
    assert findings([instance_of(version(0, CheckState.ACTIVE, "A"), deleted=True)], []) == []


def test_checks_of_a_host_in_maintenance_come_after_all_problems_and_name_the_maintenance():
    down, fine = on("h1", CheckState.ROLLOUT_FAILED, reason="no such plugin"), on("h2", CheckState.ACTIVE)
    by_id = {instance.id: instance for instance in (down, fine)}
    maintenance = Maintenance("h1", "ann", "new disk", NOW)
    failing, _ = check_findings(by_id, {fine.id: CheckResult(ResultState.OK, "", 1.0, 2.0)}, {"h1": maintenance})
    assert (failing.word, failing.detail) == ("in maintenance", "in maintenance by ann: new disk")
    assert failing.to_json()["maintenance"]["reason"] == "new disk"


def test_the_subject_names_the_chosen_attributes():
    key = replace(KEY, attributes=(("port", 80),))
    (finding,) = check_findings({key.id: CheckInstance(key)}, {})
    assert finding.subject == "front-http of /p1/shop/front 0, port 80"
    assert finding.to_json()["attributes"] == {"port": 80}


def test_a_change_under_way_is_pending_with_any_old_result():
    instance = instance_of(version(0, CheckState.AWAITING_DEPROVISION, "A"), version(1, CheckState.BLOCKED, "B"))
    assert findings([instance], [(instance, ResultState.CRITICAL)]) == [
        ("host1", "pending", "awaiting_deprovision")
    ]

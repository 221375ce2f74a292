"""One reading of all instances: the known results, and the checks that wait for monitoring systems."""

from dataclasses import replace

from support.checks.instances import KEY
from zkdeployment.base.act import Maintenance
from zkdeployment.checks.rules.findings import CheckReading, SystemRecord, check_reading, silent_systems
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration
from zkdeployment.checks.rules.monitoring_system import STALE_AFTER, CheckResult, ResultState, SystemContact

NOW = 1000.0
OK = CheckResult(ResultState.OK, "fine", 1.0, 2.0)
SPEAKING, SILENT = SystemContact(900.0, NOW), SystemContact(reported=NOW - STALE_AFTER - 1)


def on(host, state=CheckState.ACTIVE, system="nagios1", *, changed=5.0, flagged=False, deleted=False):
    found = InstanceConfiguration(0, "c", state, {}, system, changed=changed)
    return CheckInstance(replace(KEY, host=host), (found,), 0, flagged, deleted)


def reading(instances, **systems):
    return check_reading({found.id: found for found in instances}, systems, NOW)


def test_a_result_counts_if_it_is_from_the_monitoring_system_of_the_instance():
    here, moved, new = on("h1"), on("h2"), on("h3")
    reported = {here.id: OK}
    found = reading(
        [here, moved, new],
        nagios1=SystemRecord(None, SPEAKING, reported),
        nagios2=SystemRecord(None, SPEAKING, {moved.id: OK}),
    )
    assert found.results == reported
    assert [(one.host, one.word) for one in found.findings] == [("h2", "pending"), ("h3", "pending"), ("h1", "ok")]


def test_the_results_of_silent_systems_are_unknown():
    one, other = on("h1"), on("h2", system="nagios2")
    records = {
        "nagios1": SystemRecord(None, SILENT, {one.id: OK}),
        "nagios2": SystemRecord(None, SPEAKING, {other.id: OK}),
    }
    found = reading([one, other], **records)
    assert found.results[one.id].state is ResultState.UNKNOWN
    assert found.results[other.id] == OK
    assert silent_systems(records, NOW) == {"nagios1"}
    assert silent_systems({"nagios3": SystemRecord()}, NOW) == {"nagios3"}


def test_deleted_instances_are_listed_without_a_finding():
    found = reading([on("h1", deleted=True)])
    assert len(found.instances) == 1
    assert found.findings == ()


def test_the_summary_counts_waiting_and_failed_checks_of_each_system():
    flagged = on("h1", CheckState.AWAITING_ROLLOUT, changed=7.0, flagged=True)
    fetched = on("h2", CheckState.ROLLOUT_IN_PROGRESS, changed=6.0)
    failed, active = on("h3", CheckState.ROLLOUT_FAILED, changed=1.0), on("h4", changed=2.0)
    found = reading(
        [flagged, fetched, failed, active], nagios1=SystemRecord("http://n1", SPEAKING), idle=SystemRecord()
    )
    idle, nagios1 = found.summary.systems
    assert (idle.name, idle.waiting, idle.waiting_since) == ("idle", frozenset(), None)
    assert (nagios1.callback, nagios1.fetched, nagios1.reported) == ("http://n1", 900.0, NOW)
    assert nagios1.flagged == {flagged.id}
    assert nagios1.open == {flagged.id, fetched.id}
    assert nagios1.failed == {failed.id}
    assert nagios1.waiting_since == 6.0
    assert nagios1.unheard_since is None


def test_the_summary_has_the_last_report_of_a_silent_system_with_active_checks():
    (silent,) = reading([on("h1")], nagios1=SystemRecord(None, SILENT)).summary.systems
    assert silent.unheard_since == SILENT.reported


def test_failed_checks_of_a_host_in_maintenance_are_no_problem_of_the_monitoring_system():
    failed, other = on("h1", CheckState.ROLLOUT_FAILED), on("h2", CheckState.ROLLOUT_FAILED)
    maintenance = {"h1": Maintenance("h1", "ann", "new disk", NOW)}
    instances = {found.id: found for found in (failed, other)}
    found = check_reading(instances, {"nagios1": SystemRecord(None, SPEAKING)}, NOW, maintenance=maintenance)
    assert found.summary.systems[0].failed == {other.id}
    assert [found.view(one).maintenance for one in (failed, other)] == [maintenance["h1"], None]


def test_without_instances_the_reading_is_empty():
    assert check_reading({}, {}, NOW) == CheckReading()

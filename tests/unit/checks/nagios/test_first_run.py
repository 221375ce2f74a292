"""The first run of a plugin: what shows that it cannot run, and the request for it."""

from dataclasses import replace

import pytest

from support.checks.instances import CHECK
from support.waiting import ManualClock
from zkdeployment.checks.nagios.batch import ObjectChange, first_run_problem
from zkdeployment.checks.nagios.check_rollouts import FirstRuns
from zkdeployment.checks.nagios.files import NagiosResult

MISSING = "(Return code of 127 is out of bounds. Check if plugin exists)"


@pytest.mark.parametrize(
    ("state", "output", "is_problem"),
    [
        ("critical", MISSING, True),
        ("critical", "(Return code of 126 is out of bounds. Check if plugin is executable)", True),
        ("unknown", "(Return code of 127 is out of bounds - plugin may be missing)", True),
        ("critical", "(Service check timed out after 60.01 seconds)", True),
        ("critical", "(Return code of 255 is out of bounds)", False),
        ("critical", f"the plugin said: {MISSING}", False),
        ("ok", MISSING, False),
        ("warning", "", False),
    ],
)
def test_a_plugin_that_cannot_run_is_a_problem_but_its_findings_are_not(state, output, is_problem):
    problem = first_run_problem(CHECK, NagiosResult(state, output, 1.0))
    assert (problem is not None) == is_problem
    assert problem is None or problem.startswith(f"the first run of check_http failed: {output}; see")


class Commands:
    def __init__(self) -> None:
        self.submitted = []

    def submit(self, commands):
        self.submitted += commands


def test_nagios_is_asked_for_the_first_run_and_again_after_half_a_minute():
    clock, nagios = ManualClock(), Commands()
    runs = FirstRuns(nagios, clock)
    runs.request()
    assert nagios.submitted == []
    runs.replace([], {CHECK.instance: ObjectChange(instance=CHECK.instance, check=CHECK)})
    for seconds, requests in ((0, 1), (29, 1), (1, 2)):
        clock.time += seconds
        runs.request()
        assert len(nagios.submitted) == requests
    assert nagios.submitted[0] == (
        "[1000000] SCHEDULE_FORCED_SVC_CHECK;h1.example.com;front-http /p1/shop/front 0 01234567;1000000"
    )
    runs.replace([CHECK.instance], {})
    assert runs.waiting == set()


def test_at_most_a_hundred_runs_are_requested_at_a_time():
    nagios = Commands()
    runs = FirstRuns(nagios, ManualClock())
    many = {str(number): ObjectChange(instance=str(number), check=CHECK) for number in range(150)}
    runs.replace([], many)
    runs.request()
    assert len(nagios.submitted) == 100
    runs.request()
    assert len(nagios.submitted) == 150


def test_rollouts_are_taken_when_their_plugins_have_run():
    runs = FirstRuns(Commands(), ManualClock())
    good, bad, waiting = (
        ObjectChange(instance=name, check=replace(CHECK, instance=name)) for name in ("good", "bad", "waiting")
    )
    runs.replace([], {change.instance: change for change in (good, bad, waiting)})
    results = {"good": NagiosResult("critical", "down", 1.0), "bad": NagiosResult("critical", MISSING, 1.0)}
    succeeded, failed = runs.take(results)
    assert succeeded == [good]
    assert [(change, reason.partition(":")[0]) for change, reason in failed] == [
        (bad, "the first run of check_http failed")
    ]
    assert runs.waiting == {"waiting"}
    assert runs.take(results) == ([], [])

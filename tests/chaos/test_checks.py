"""The checks of a chaos run, on literal observations: each mutation of a good story is found."""

import pytest

from chaos.checks import GRACE, Checks
from chaos.observations import (
    AgentEnded,
    AgentThawed,
    ClusterSeen,
    ReportsSeen,
    ScriptBegan,
    ScriptCall,
    ScriptEnded,
    ScriptFailed,
    UnexpectedErrorLogged,
    VersionClaimed,
    read_record,
    unexpected_errors,
)
from zkdeployment.model.deployment import Assignment, DesiredState

WEB = Assignment("/s0/app", 1, "app0", "app0", version="2.0")


class PushedTrees:
    """One revision, at which host1 and host2 are to run /s0/app."""

    def wanted(self, revision, host):
        if revision != "r1":
            return None
        return DesiredState((WEB,) if host in {"host1", "host2"} else ())

    def has_revision(self, revision):
        return revision == "r1"

    def has_service(self, revision, path):
        return revision == "r1" and path == "/s0/app"


def call(host="host1", *, pid=1, undeploys=False, path="/s0/app", number=0, package="2.0", revision="r1"):
    return ScriptCall(host, undeploys, path, number, package, revision, pid)


def running(time, *, since=None, stops=()):
    return ClusterSeen(time if since is None else since, time, "r1", 1, stops)


def stopped(time, *, since=None, written=2):
    return ClusterSeen(time if since is None else since, time, None, written, ("host1",))


def claim(**changed):
    values = {"marked": frozenset({("/s0/app", 0)}), "packages": {"app0": "2.0"}, "revision": "r1", **changed}
    return VersionClaimed(9.0, "host1", **values)


MESSAGE = "/s0/app 0 failed with exit status 7"
FAILED = ScriptFailed(2.0, call(), 7)
REPORTED = ReportsSeen(3.0, frozenset({("host1", f'{{"reason": "/opt/app0/bin/zookeeper-deploy {MESSAGE}"}}')}))

#: What a good fleet does: a host after the other, a failure that is reported, a stop after which nothing starts.
GOOD = (
    running(0.0),
    ScriptBegan(1.0, call()),
    FAILED,
    ScriptEnded(2.0, call()),
    REPORTED,
    stopped(3.0),
    ScriptBegan(4.0, call("host2", pid=2)),
    ScriptEnded(5.0, call("host2", pid=2)),
    stopped(4.0 + GRACE),
    running(40.0),
    ScriptBegan(41.0, call(pid=3)),
    ScriptEnded(42.0, call(pid=3)),
    claim(),
)


def findings(*story):
    checks = Checks(PushedTrees())
    for observation in story:
        checks.see(observation)
    checks.check_end()
    return checks.findings


def test_a_good_fleet_has_no_findings():
    assert findings(*GOOD) == []


@pytest.mark.parametrize(
    ("story", "words"),
    [
        pytest.param(
            [ScriptBegan(1.0, call()), ScriptBegan(1.1, call("host2", pid=2))],
            ["two scripts under the lock of /s0/app", "on host2"],
            id="a script that ignores the lock",
        ),
        pytest.param(
            [ScriptBegan(1.0, call()), AgentEnded(1.1, "host1"), ScriptBegan(1.2, call(pid=2))],
            ["two scripts under the lock of /s0/app"],
            id="an agent that does not wait for the script of its predecessor",
        ),
        pytest.param(
            [stopped(3.0), ScriptBegan(3.1 + GRACE, call()), ScriptEnded(15.0, call()), stopped(16.0)],
            [f"began {GRACE + 0.1:.1f} s after the stop"],
            id="an agent that does not see the stop",
        ),
        pytest.param(
            [claim(marked=frozenset())],
            ["/s0/app 0 has no marker"],
            id="a version written early, before the marker",
        ),
        pytest.param(
            [claim(packages={"app0": "1.0"})],
            ["app0 is 1.0, not 2.0"],
            id="a version written early, before the package",
        ),
        pytest.param(
            [claim(packages={"app0": "2.0", "app1": "1.0"})],
            ["app1 is still installed"],
            id="a version written before a removal",
        ),
        pytest.param([claim(revision="r9")], ["no valid tree"], id="a version that nobody pushed"),
        pytest.param(
            [ScriptBegan(1.0, call("host3"))],
            ["the tree does not want this instance"],
            id="targets of another tree",
        ),
        pytest.param(
            [ScriptBegan(1.0, call(undeploys=True))],
            ["the tree wants this instance"],
            id="an end of what is wanted",
        ),
        pytest.param(
            [ScriptBegan(1.0, call(package="1.0"))], ["the tree has 2.0"], id="a package of another publication"
        ),
        pytest.param(
            [ScriptBegan(1.0, call(revision="r9"))], ["no valid tree"], id="a revision that nobody pushed"
        ),
        pytest.param(
            [running(1.0, stops=("host1",))],
            ["a stop is on record (host1)"],
            id="a stop that does not stop the fleet",
        ),
        pytest.param(
            [ScriptBegan(1.0, call()), FAILED, ScriptEnded(2.0, call())],
            [f"never reported: host1: {MESSAGE}"],
            id="a failure that is not reported",
        ),
        pytest.param(
            [ScriptBegan(1.0, call()), FAILED, AgentEnded(2.1, "host1", kept=f'{{"reason": "{MESSAGE}"}}')],
            [f"never reported: host1: {MESSAGE}"],
            id="a failure that was kept and is not reported",
        ),
        pytest.param(
            [UnexpectedErrorLogged(1.0, "host1", "unexpected KeyError: 'a'; see the log")],
            ["host1 does not handle an error"],
            id="a defect",
        ),
    ],
)
def test_what_is_broken_is_found(story, words):
    found = "\n".join(findings(running(0.0), *story))
    for word in words:
        assert word in found


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(
            [stopped(3.0), ScriptBegan(2.9 + GRACE, call()), ScriptEnded(14.0, call()), stopped(15.0)],
            id="a script that an agent started right before it saw the stop",
        ),
        pytest.param(
            [stopped(3.0), ScriptBegan(20.0, call()), ScriptEnded(20.1, call()), stopped(21.0, since=19.0)],
            id="the stop may have ended before the script began",
        ),
        pytest.param(
            [stopped(3.0), ScriptBegan(20.0, call()), ScriptEnded(20.1, call()), stopped(21.0, written=3)],
            id="the fleet ran between two stops",
        ),
        pytest.param(
            [
                stopped(3.0),
                AgentThawed(19.0, "host1"),
                ScriptBegan(20.0, call()),
                ScriptEnded(20.1, call()),
                stopped(21.0),
            ],
            id="the agent was frozen when it was about to start the script",
        ),
        pytest.param(
            [ScriptBegan(1.0, call()), FAILED, AgentEnded(2.1, "host1"), ScriptEnded(2.2, call())],
            id="the agent was killed before it could keep the failure",
        ),
        pytest.param(
            [ScriptBegan(1.0, call()), AgentEnded(1.1, "host1"), FAILED, ScriptEnded(2.2, call())],
            id="nobody hears of the failure of a script whose agent was killed",
        ),
        pytest.param(
            [
                ScriptBegan(1.0, call(undeploys=True, path="/s1/app")),
                ScriptBegan(1.1, call("host2", pid=2, undeploys=True, path="/s1/app")),
                ScriptEnded(1.2, call(undeploys=True, path="/s1/app")),
                ScriptEnded(1.2, call("host2", pid=2, undeploys=True, path="/s1/app")),
            ],
            id="a service that is gone needs no lock",
        ),
    ],
)
def test_what_may_happen_is_no_finding(story):
    assert findings(running(0.0), *story) == []


def test_the_record_of_scripts_is_read():
    line = "fail 52391.97 host3 -u /s1/app 1 2.0 7d269be6 14325 45"
    expected = ScriptCall("host3", True, "/s1/app", 1, "2.0", "7d269be6", 14325)
    assert read_record(line) == ScriptFailed(52391.97, expected, 45)
    with pytest.raises(ValueError, match="expected begin, end or fail, found pause"):
        read_record(line.replace("fail", "pause"))


def test_defects_are_found_in_logs():
    log = (
        '{"reason": "the disk is full", "exception": "Traceback (most recent call last):\\n  File"}\n'
        '{"reason": "unexpected KeyError: \'a\'; see the log"}\n'
        "Traceback (most recent call last):\n"
    )
    assert unexpected_errors(log) == ["Traceback (most recent call last)", "unexpected KeyError: 'a'; see the log"]

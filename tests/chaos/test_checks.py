"""The checks of a chaos run, on literal observations: each mutation of a good story is found."""

import pytest

from chaos.checks import GRACE, Checks
from chaos.observations import (
    DEPLOY,
    ENDING,
    STARTING,
    UNDEPLOY,
    AgentEnded,
    AgentThawed,
    Attacked,
    ClusterSeen,
    HostWentDown,
    PublicationSeen,
    RegistrationsSeen,
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
from chaos.pushed import PushedTree
from chaos.systems import RELEASES
from zkdeployment.base.deployment import Assignment, DesiredState
from zkdeployment.base.publication import OrderEntry
from zkdeployment.base.system import WantedSystem

WEB = Assignment("/s0/app", 1, "app0", "app0", version="2.0")
CONTROLLER = Assignment("/roles/edge", 1, "ctl", "ctl", version="1.0")

#: In the first revision, host1 and host2 are to run /s0/app, and host4 and host5 with a controller, too.
CONTROLLED = DesiredState((WEB,), CONTROLLER)
FIRST = PushedTree(
    {"host1": DesiredState((WEB,)), "host2": DesiredState((WEB,)), "host3": DesiredState(())}
    | {"host4": CONTROLLED, "host5": CONTROLLED},
    {"host1": (WEB,), "host2": (WEB,), "edge": (WEB,), "/roles/edge": (CONTROLLER,)},
    {"/s0/app": "7"},
)

#: In the second, host1 deploys /s1/app after /s0/app, and host3 keeps /s0/app until host2 has gained it.
KEPT = Assignment("/s0/app", 1, "app0", "app0", version="2.0", undeploys_last=True)
AFTER = Assignment("/s1/app", 1, "app1", "app1", version="2.0", after=("/s0/app",))
SECOND = PushedTree(
    {"host1": DesiredState((AFTER,)), "host2": DesiredState((KEPT,)), "host3": DesiredState(())},
    {"host1": (AFTER,), "host2": (KEPT,)},
    {"/s0/app": "7", "/s1/app": "8"},
)

#: In the third, host3 has an operating system.
THIRD = PushedTree({"host3": DesiredState(system=WantedSystem("/os/plain", "2026-11"))})
LATER = frozenset((package.name, package.version) for package in RELEASES["2026-11"])
TREES = {"r1": FIRST, "r2": SECOND, "r3": THIRD}


def call(host="host1", **changed):
    values = {"action": DEPLOY, "path": "/s0/app", "number": 0, "package": "2.0", "revision": "r1", "text": "7"}
    return ScriptCall(host, **{**values, "pid": 1, **changed})


def bracket(action, host="host4", **changed):
    return call(host, **{"action": action, "path": "/roles/edge", "package": "1.0", "text": "-", **changed})


def whole(script, time=1.0):
    return ScriptBegan(time, script), ScriptEnded(time + 0.1, script)


def published(revision="r2", *, time=0.0, since=1, **changed):
    tree = TREES[revision]
    order = {"/s0/app": OrderEntry(("host2",), ("host2",))} if revision == "r2" else {}
    return PublicationSeen(
        time,
        revision,
        **{"targets": tree.targets, "texts": tree.texts, **changed},
        since=since,
        order=order,
        ordered=50,
    )


def registered(since, created=40):
    return RegistrationsSeen(since, {"host2": created})


def running(time, *, since=None, stops=()):
    return ClusterSeen(time if since is None else since, time, "r1", 1, stops)


def stopped(time, *, since=None, written=2, stops=("host1",), retry=None):
    return ClusterSeen(time if since is None else since, time, None, written, stops, retry)


def claim(host="host1", **changed):
    values = {"marked": frozenset({("/s0/app", 0)}), "packages": {"app0": "2.0"}, "revision": "r1", **changed}
    return VersionClaimed(9.0, host, **values)


MESSAGE = "/s0/app 0 failed with exit status 7"
FAILED = ScriptFailed(2.0, call(), 7)
REPORTED = ReportsSeen(3.0, frozenset({("host1", f'{{"reason": "/opt/app0/bin/zookeeper-deploy {MESSAGE}"}}')}))

#: The retry of the host that failed.
RETRY = ("host1", "r1")

#: What a good fleet does: a host after the other, a failure that is reported, a stop after which nothing starts,
#: and the retry of a host.
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
    stopped(20.0, written=3, retry=RETRY),
    ScriptBegan(32.0, call(pid=4)),
    ScriptEnded(33.0, call(pid=4)),
    stopped(35.0, written=3, retry=RETRY),
    stopped(36.0, written=4),
    running(40.0),
    ScriptBegan(41.0, call(pid=3)),
    ScriptEnded(42.0, call(pid=3)),
    claim(),
)


def findings(*story):
    checks = Checks(TREES.get)
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
            [stopped(3.0, retry=RETRY), *whole(call("host2"), 3.1 + GRACE), stopped(16.0, retry=RETRY)],
            [f"on host2 (process 1) began {GRACE + 0.1:.1f} s after the stop"],
            id="a host that follows the retry of another one",
        ),
        pytest.param(
            [
                stopped(3.0, retry=("host1", "r2")),
                *whole(call(), 3.1 + GRACE),
                stopped(16.0, retry=("host1", "r2")),
            ],
            ["after the stop"],
            id="a retry of another revision",
        ),
        pytest.param(
            [
                stopped(3.0, retry=RETRY),
                stopped(4.0, written=3),
                *whole(call(), 4.1 + GRACE),
                stopped(16.0, written=3),
            ],
            [f"began {GRACE + 0.1:.1f} s after the stop"],
            id="a host that does not see the end of its retry",
        ),
        pytest.param(
            [stopped(3.0, stops=(), retry=RETRY)],
            ["a retry of host1 has cleared the stops"],
            id="a retry that clears the stops",
        ),
        pytest.param(
            [ClusterSeen(3.0, 3.0, "r1", 2, (), RETRY)],
            ["a retry of host1 is in force while the fleet runs at r1"],
            id="a retry that resumes the fleet",
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
        pytest.param(
            [claim("host3", revision="r3", marked=(), packages={}, system=LATER - {("bash", "5.2")})],
            ["bash 5.2 of release 2026-11 is not installed"],
            id="an operating system that is only half updated",
        ),
        pytest.param(
            [claim("host3", revision="r3", marked=(), packages={}, system=LATER | {("glibc", "2.34")})],
            ["glibc 2.34 is not of release 2026-11"],
            id="an operating system with two versions of a library",
        ),
        pytest.param([claim(revision="r9")], ["no valid tree"], id="a version that nobody pushed"),
        pytest.param(
            [ScriptBegan(1.0, call("host3"))],
            ["the tree does not want this instance"],
            id="targets of another tree",
        ),
        pytest.param(
            [ScriptBegan(1.0, call(action=UNDEPLOY))],
            ["the tree wants this instance"],
            id="an end of what is wanted",
        ),
        pytest.param(
            [ScriptBegan(1.0, call(package="1.0"))], ["the tree has 2.0"], id="a package of another publication"
        ),
        pytest.param(
            [ScriptBegan(1.0, call(text="evil"))], ["text evil, but the tree has 7"], id="a property nobody signed"
        ),
        pytest.param(
            [ScriptBegan(1.0, call(path="/evil/app"))],
            ["the tree does not want this instance"],
            id="a service that nobody signed",
        ),
        pytest.param(
            [published("r1", targets={"host1": (WEB,)})],
            ["half a publication of r1"],
            id="a publication without some targets",
        ),
        pytest.param(
            [published("r1", texts={"/s0/app": "6"})],
            ["half a publication of r1"],
            id="a publication with a property of another one",
        ),
        pytest.param(
            [*whole(call("host4"))],
            ["outside the bracket of its role's controller"],
            id="a deployment before starting-deployments",
        ),
        pytest.param(
            [
                ScriptBegan(1.0, bracket(STARTING)),
                ScriptEnded(1.1, bracket(STARTING), killed=True),
                *whole(call("host4")),
            ],
            ["outside the bracket of its role's controller"],
            id="a deployment after starting-deployments was killed",
        ),
        pytest.param(
            [
                *whole(bracket(STARTING)),
                *whole(call("host4")),
                claim(host="host4", packages={"app0": "2.0", "ctl": "1.0"}),
            ],
            ["host4 has finished before ending-deployments has run"],
            id="a bracket that is not closed",
        ),
        pytest.param(
            [ScriptBegan(1.0, bracket(STARTING)), ScriptBegan(1.1, bracket(STARTING, "host5", pid=2))],
            ["two scripts under the lock of /roles/edge"],
            id="a role lock that is ignored",
        ),
        pytest.param(
            [*whole(bracket(STARTING, package="2.0"))],
            ["with version 2.0, but the tree has 1.0"],
            id="a controller of another publication",
        ),
        pytest.param(
            [
                published(),
                *whole(call("host1", path="/s1/app", revision="r2", text="8")),
                *whole(call("host2", revision="r2"), 2.0),
                registered(3.0),
            ],
            ["/s0/app 0 of r2 on host2 (process 1) begins after /s1/app 0 of r2 on host1"],
            id="a service that is deployed before the one that it waits for",
        ),
        pytest.param(
            [
                published(),
                *whole(call("host3", action=UNDEPLOY, revision="r2", text="-")),
                *whole(call("host2", revision="r2"), 2.0),
                registered(3.0),
            ],
            ["/s0/app 0 of r2 on host2 (process 1) begins after -u /s0/app 0 of r2 on host3"],
            id="a service that is undeployed before others have it",
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
def test_a_broken_rule_is_found(story, words):
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
                ScriptBegan(1.0, call(action=UNDEPLOY, path="/s1/app", text="-")),
                ScriptBegan(1.1, call("host2", pid=2, action=UNDEPLOY, path="/s1/app", text="-")),
                ScriptEnded(1.2, call(action=UNDEPLOY, path="/s1/app", text="-")),
                ScriptEnded(1.2, call("host2", pid=2, action=UNDEPLOY, path="/s1/app", text="-")),
            ],
            id="a service that is gone needs no lock",
        ),
        pytest.param([published("r1"), published()], id="whole publications"),
        pytest.param(
            [Attacked(0.5), published("r1", texts={"/s0/app": "evil"})],
            id="what an attacker makes of a publication",
        ),
        pytest.param(
            [
                *whole(bracket(STARTING)),
                *whole(call("host4")),
                *whole(bracket(ENDING)),
                claim(host="host4", packages={"app0": "2.0", "ctl": "1.0"}),
            ],
            id="a bracket",
        ),
        pytest.param(
            [stopped(3.0), *whole(bracket(ENDING), 4.0 + GRACE), stopped(15.0 + GRACE)],
            id="a bracket is closed although the fleet is stopped",
        ),
        pytest.param(
            [
                published(),
                *whole(call("host2", revision="r2")),
                *whole(call("host1", path="/s1/app", revision="r2", text="8"), 2.0),
                *whole(call("host3", action=UNDEPLOY, revision="r2", text="-"), 2.0),
                registered(3.0),
            ],
            id="services in their order",
        ),
        pytest.param(
            [
                published(),
                *whole(call("host1", path="/s1/app", revision="r2", text="8")),
                *whole(call("host2", revision="r2"), 2.0),
                registered(3.0, created=60),
            ],
            id="a host that was away is not waited for",
        ),
        pytest.param(
            [claim("host3", revision="r3", marked=(), packages={}, system=LATER | {("kernel-core", "5.14.1")})],
            id="an updated operating system keeps its former kernel",
        ),
    ],
)
def test_permitted_events_are_not_findings(story):
    assert findings(running(0.0), *story) == []


def test_the_record_of_scripts_is_read():
    line = "fail 52391.97 host3 undeploy /s1/app 1 2.0 7d269be6 - 14325 45"
    expected = ScriptCall("host3", UNDEPLOY, "/s1/app", 1, "2.0", "7d269be6", "-", 14325)
    assert read_record(line) == ScriptFailed(52391.97, expected, 45)
    line = "down 52391.97 host3 reboot /os/plain 0 - 7d269be6 - 14325 1"
    assert read_record(line) == HostWentDown(52391.97, "host3", "/os/plain", "7d269be6")
    with pytest.raises(ValueError, match="expected begin, end, fail or down, found pause"):
        read_record(line.replace("down", "pause"))


def test_failures_are_reported_in_the_words_of_the_agent():
    assert ScriptFailed(1.0, call(), 7).message == "/s0/app 0 failed with exit status 7"
    assert (
        ScriptFailed(1.0, bracket(STARTING), 3).message
        == "starting-deployments /roles/edge failed with exit status 3"
    )


def test_after_an_attack_the_next_convergence_needs_a_whole_publication():
    checks = Checks(TREES.get)
    checks.see(Attacked(1.0))
    checks.check_end()
    checks.see(published("r1", texts={}))
    assert len(checks.findings) == 1


def test_defects_are_found_in_logs():
    log = (
        '{"reason": "the disk is full", "exception": "Traceback (most recent call last):\\n  File"}\n'
        '{"reason": "unexpected KeyError: \'a\'; see the log"}\n'
        "Traceback (most recent call last):\n"
    )
    assert unexpected_errors(log) == ["Traceback (most recent call last)", "unexpected KeyError: 'a'; see the log"]

import pytest
from nagiosplugin import Range

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.stop import Stop
from zkdeployment.fleet.views.health import Health, HealthLimits, StatusFile, host_health, parse_status
from zkdeployment.fleet.views.snapshot import FleetSnapshot

NOW = 1_800_000_000.0
HOST = {"name": "app1", "version": "abc"}
CLUSTER = Cluster("abc")
WIPED = (
    "Host not registered: the host's status file has version abc, but {}; ZooKeeper was wiped or restored from an"
    " old backup, or this is another ensemble"
)


def judge(status="1799999990 42 abc done", host=HOST, cluster=CLUSTER, *, stops=(), warn="200", critical="600"):
    limits = HealthLimits(Range(warn), Range(critical))
    snapshot = FleetSnapshot(cluster, changed=NOW - 40, stops=tuple(stops))
    return host_health(status, host, snapshot, now=NOW, limits=limits)


def measured(verdict):
    return {measure.name: measure.value for measure in verdict.measures}


def running(age, status="deploy /who/myfoo 0"):
    return f"{NOW - age} 42 abc {status}"


def test_a_status_file_is_one_line_whose_status_may_hold_spaces():
    assert parse_status("1.5 42 abc deploy /who/myfoo 0\n") == StatusFile(1.5, 42, "abc", "deploy /who/myfoo 0")
    assert parse_status("1 42 1112 done") == StatusFile(1.0, 42, "1112", "done")


@pytest.mark.parametrize(
    "text",
    ["", "\n", "1 42 abc", "1 42 abc ", "x 42 abc done", "1 x abc done", "nan 42 abc done", "inf 1 a done",
     "1 42 abc done\n2 42 abc done", "\0\0\0\0", "{}"],
)  # fmt: skip
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"expected|not a time|could not convert|invalid literal"):
        parse_status(text)
    verdict = judge(text)
    assert verdict.health is Health.CRITICAL
    assert "unreadable" in verdict.line
    assert "\n" not in verdict.line


@pytest.mark.parametrize(
    ("arguments", "health", "line"),
    [
        ({"host": None, "cluster": Cluster(None), "status": None}, 2, "Host not registered"),
        ({"cluster": None}, 2, WIPED.format("there is no /hosts")),
        ({"host": None, "cluster": Cluster("initial")}, 2, WIPED.format("the cluster version is initial")),
        ({"cluster": None, "status": None}, 2, "Host not registered"),
        ({"cluster": None, "status": "1 2 None done"}, 2, "Host not registered"),
        ({"cluster": Cluster(None), "status": None}, 1, "Cluster version is None"),
        ({"cluster": Cluster(None), "status": "1 1 abc error"}, 1, "Cluster version is None"),
        (
            {
                "cluster": Cluster(None),
                "stops": [
                    Stop(f"h{number}", f"app{number}", "abc", "deploy /foo 0", "it |\n broke", NOW - 60)
                    for number in (1, 2)
                ],
            },
            1,
            "Cluster version is None: app1 (h1), app2 (h2) failed at deploy /foo 0 of abc: it / broke (1 min ago)",
        ),
        ({"cluster": Cluster(False)}, 1, "Cluster version is False"),
        (
            {"cluster": Cluster(False), "stops": [Stop.of_operator(Act("ann@adm1", "hold", "rack 7", NOW - 60))]},
            1,
            "Cluster version is False: held by ann@adm1: rack 7 (1 min ago)",
        ),
        ({"cluster": Cluster(False), "status": running(9999)}, 1, "Cluster version is False"),
        (
            {"status": None},
            2,
            "Status file unreadable: expected a file with TIME PID VERSION STATUS, as an agent writes it",
        ),
        ({"status": running(1, "error")}, 2, "Error deploying abc: see the agent's log"),
        ({"status": running(1, "error no foo 1.4")}, 2, "Error deploying abc: no foo 1.4"),
        (
            {"status": running(1, "error"), "host": HOST | {"error": "no foo 1.4"}},
            2,
            "Error deploying abc: no foo 1.4",
        ),
        ({}, 0, "abc"),
        ({"cluster": Cluster("abc", importing="def")}, 0, "abc"),
        ({"status": "1 1 1112 done", "cluster": Cluster(1112), "host": {"version": 1112}}, 0, "1112"),
        ({"cluster": Cluster("def")}, 2, "Version abc is deployed but the cluster version is def"),
        ({"host": {"name": "x"}}, 2, "Version abc is deployed but the host's node has no version"),
        ({"host": {"version": "old"}}, 2, "Version abc is deployed but the host's node has version old"),
        ({"status": running(10, "done with it")}, 0, "done with it"),
        ({"status": running(10, "errors are few")}, 0, "errors are few"),
        ({"status": running(200)}, 0, "deploy /who/myfoo 0"),
        ({"status": running(201)}, 1, "Too long deploying abc (deploy /who/myfoo 0: 201 s, more than 200 s)"),
        ({"status": running(600)}, 1, "Too long deploying abc (deploy /who/myfoo 0: 600 s, more than 200 s)"),
        ({"status": running(601)}, 2, "Too long deploying abc (deploy /who/myfoo 0: 601 s, more than 600 s)"),
        (
            {"status": running(6), "warn": "2", "critical": "5.5"},
            2,
            "Too long deploying abc (deploy /who/myfoo 0: 6 s, more than 5.5 s)",
        ),
        (
            {"status": running(6), "warn": "10:20"},
            1,
            "Too long deploying abc (deploy /who/myfoo 0: 6 s, outside 10:20 s)",
        ),
        (
            {"status": running(900, "waits to deploy: rollout 7-1 has granted it only to prepare")},
            0,
            "waits to deploy: rollout 7-1 has granted it only to prepare",
        ),
        ({"status": running(-0.5)}, 0, "deploy /who/myfoo 0"),
        (
            {"status": running(-60)},
            3,
            "Status file is from the future (deploy /who/myfoo 0); check the clock",
        ),
    ],
)  # fmt: skip
def test_the_most_important_problem_is_reported_first(arguments, health, line):
    verdict = judge(**arguments)
    assert (verdict.health, verdict.line) == (Health(health), line)


def test_the_age_is_reported_when_it_is_known():
    assert measured(judge(running(30)))["age"] == pytest.approx(30)
    assert measured(judge(running(30, "done")))["age"] == pytest.approx(30)
    assert measured(judge(running(-0.5)))["age"] == 0
    assert "age" not in measured(judge(running(-60)))
    assert "age" not in measured(judge(None))


def test_the_lag_and_the_steps_of_a_host_are_reported_when_they_are_known():
    assert measured(judge())["lag"] == 0
    assert measured(judge(host={"version": "old", "steps": [3, 7]}))["lag"] == 40
    steps = judge(host={"version": "old", "steps": [3, 7]}).measures[-1]
    assert (steps.name, steps.value, steps.most) == ("steps", 3, 7)
    assert measured(judge(cluster=Cluster(None))) == {}
    assert measured(judge(host=None)) == {}


def test_the_lease_of_a_host_is_a_part_of_the_line():
    leased = {**HOST, "role": "ci-web", "lease": "spare", "leased": {"role": "ci-web", "number": 7}}
    assert judge(host=leased).line == "abc, leased to role ci-web (number 7)"
    changing = {**HOST, "role": "ci-web", "lease": "spare"}
    assert judge(host=changing).line == "abc, changes to role ci-web for its lease"

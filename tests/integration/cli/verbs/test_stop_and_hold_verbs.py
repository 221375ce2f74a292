"""The verbs stop, hold and resume on a real ZooKeeper."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest

from support.zookeeper import write_node
from zkdeployment.base.act import Act
from zkdeployment.fleet.store import audit
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.programs.main import main
from zkdeployment.zookeeper.session import Session


@pytest.fixture
def run(zookeeper, capsys, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "adm1")

    def call(verb: str, *argv: str):
        with pytest.raises(SystemExit) as end:
            main([verb, "-z", zookeeper, *argv])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def fleet(client):
    """One host that converged to r1, the published revision."""
    client.create("/hosts", b'{"version": "r1", "extra": 1}')
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    client.create("/hosts/h1", b'{"name": "h1.example.com", "version": "r1"}', ephemeral=True)
    return client


def acts(zookeeper):
    with Session(zookeeper) as session:
        return [(act.by, act.what, act.reason) for act in read_acts(session)]


@pytest.mark.parametrize(
    ("verb", "data", "word"), [("stop", None, "stopped"), ("hold", False, "held")], ids=["stop", "hold"]
)
def test_operator_and_reason_are_shown_until_the_fleet_is_resumed(run, fleet, zookeeper, verb, data, word):
    code, out, _ = run(verb, "--reason", "the switch\n is \x1b[31mreplaced")
    assert (code, out) == (0, f"{word}\n")
    assert json.loads(fleet.get("/hosts")[0]) == {"version": data, "extra": 1}
    shown = re.escape(f"{word} by ann@adm1: the switch is \\x1b[31mreplaced")
    assert re.search(rf"{shown} \(\d+ s ago\)", run("status")[1])
    stops = json.loads(run("status", "-o", "json")[1])["stops"]
    assert [(stop["by"], stop["step"]) for stop in stops] == [("ann@adm1", verb)]
    assert stops[0]["time"] == pytest.approx(time.time(), abs=60)
    assert run("resume", "--reason", "done") == (0, "resumed at r1\n", "")
    assert fleet.get_children("/zkdeployment/stops") == []
    assert " by ann@adm1" not in run("status")[1]
    assert acts(zookeeper) == [
        ("ann@adm1", verb, "the switch is \\x1b[31mreplaced"),
        ("ann@adm1", "resume", "done"),
    ]


@pytest.mark.parametrize("argv", [(), ("--reason", " \n")])
@pytest.mark.parametrize(("verb", "version"), [("stop", None), ("hold", False)])
def test_an_emergency_act_needs_no_reason(run, fleet, zookeeper, verb, version, argv):
    assert run(verb, *argv)[0] == 0
    assert json.loads(fleet.get("/hosts")[0])["version"] is version
    assert acts(zookeeper) == [("ann@adm1", verb, "no reason given")]
    assert " by ann@adm1: no reason given" in run("status")[1]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("stop", "--reson", "x"), "Error: NOT stopped: No such option '--reson'."),
        (("stop", "host2"), "Error: NOT stopped: "),
        (("hold", "host2"), "Error: NOT held: "),
        (("rollback", "--to", "r1"), "Error: NOT rolled back: "),
    ],
)
def test_the_refusal_of_an_emergency_act_begins_with_what_did_not_happen(run, fleet, argv, message):
    code, _, err = run(*argv)
    assert code == 2
    assert message in err
    assert json.loads(fleet.get("/hosts")[0])["version"] == "r1"


def test_an_emergency_act_that_is_refused_says_that_nothing_happened(run, fleet):
    fleet.set("/hosts", b'{"version": null}')
    code, _, err = run("hold")
    assert code == 3
    assert err.startswith("zkdeployment: NOT held: ")


def test_a_stop_of_a_stopped_fleet_adds_to_the_reasons(run, fleet):
    fleet.set("/hosts", b'{"version": null}')
    fleet.set("/zkdeployment/targets", b'{"version": "r2"}')
    stop = {
        "host": "h1",
        "name": "h1.example.com",
        "revision": "r2",
        "step": "deploy /web 0",
        "reason": "it broke",
    }
    write_node(fleet, "/zkdeployment/stops/h1", stop)
    assert run("stop", "--reason", "wait for me")[0] == 0
    out = run("status")[1]
    assert "h1.example.com (h1) failed at deploy /web 0 of r2: it broke" in out
    assert "stopped by ann@adm1: wait for me" in out


def test_a_hold_can_be_made_a_stop_but_not_the_other_way_round(run, fleet):
    assert run("hold", "--reason", "rack 7")[0] == 0
    assert run("stop", "--reason", "worse than that")[0] == 0
    code, _, err = run("hold", "--reason", "rack 7")
    assert code == 3
    assert "a hold would lift that" in err
    assert json.loads(fleet.get("/hosts")[0])["version"] is None


def test_while_a_publication_is_under_way_a_hold_is_refused_and_a_stop_is_not(run, fleet):
    fleet.set("/hosts", b'{"version": "r1", "importing": "r2"}')
    code, _, err = run("hold", "--reason", "rack 7")
    assert code == 3
    assert "r2 is being published" in err
    assert run("stop", "--reason", "no")[0] == 0
    assert json.loads(fleet.get("/hosts")[0]) == {"version": None, "importing": "r2"}


@pytest.mark.parametrize("verb", ["stop", "hold"])
def test_a_stop_without_a_publication_is_refused(run, client, verb):
    code, _, err = run(verb, "--reason", "x")
    assert code == 3
    assert "there is no /hosts" in err
    assert client.exists("/hosts") is None


def test_operators_who_act_at_the_same_time_all_succeed_and_all_are_recorded(fleet, zookeeper):
    def stop(name):
        with Session(zookeeper) as session:
            ZooKeeperClusterControl(session).stop(Act(name, "stop", f"as {name} says", 1.0))

    names = [f"op{number}@adm" for number in range(4)]
    stopping = [threading.Thread(target=stop, args=(name,)) for name in names]
    for thread in stopping:
        thread.start()
    for thread in stopping:
        thread.join()
    assert sorted(by for by, _, _ in acts(zookeeper)) == names
    assert sorted(fleet.get_children("/zkdeployment/stops")) == [f"~{name}" for name in names]


def test_only_a_limited_number_of_audit_records_is_kept(fleet, zookeeper, monkeypatch):
    monkeypatch.setattr(audit, "ACTS_LIMIT", 3)
    with Session(zookeeper) as session:
        for number in range(5):
            ZooKeeperClusterControl(session).stop(Act("a@b", "stop", str(number), 1.0))
        assert [act.reason for act in read_acts(session)] == ["2", "3", "4"]
        monkeypatch.setattr(audit, "BYTES_LIMIT", 900)
        ZooKeeperClusterControl(session).stop(Act("a@b", "stop", "x" * 800, 1.0))
        assert [act.reason for act in read_acts(session)] == ["x" * 800]
        fleet.set("/zkdeployment/audit", b"not ours")
        assert read_acts(session) == ()

"""``rollout show`` and operator actions on a rollout, on a real ZooKeeper."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import replace

import pytest
import yaml

from support.strategies import (
    active_rollout,
    advanced_rollout,
    begun_rollout,
    ended_rollout,
    group,
    plain_hosts,
    strategy,
)
from support.zookeeper import write_node
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.programs.main import main
from zkdeployment.publishing.records import PublicationRecord
from zkdeployment.strategies.state_machine import next_task, record
from zkdeployment.strategies.store.records import encode_state, read_new_acts, read_state
from zkdeployment.strategies.strategy import Pace
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session

STATE = "/zkdeployment/rollouts/7-1"
LEADER = "/zkdeployment/coordinators/abc__lock__0000000000"
MANUAL = strategy(replace(group("web", "db", hosts="y"), pace=Pace(manual=True)), group("db", hosts="x"))
WAITING = advanced_rollout(begun_rollout(MANUAL, plain_hosts("xy")), until="web")


@pytest.fixture
def run(zookeeper, capsys, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "adm1")
    monkeypatch.setenv("ZC_ZK_CONNECTION_STRING", zookeeper)

    def call(*argv: str):
        with pytest.raises(SystemExit) as end:
            main([*argv])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def fleet(client):
    """Return a client of a fleet with a published strategy, a leading coordinator and one registered host."""
    client.create("/hosts", b'{"version": "r2"}')
    client.create("/hosts/x", b'{"name": "x.example.com", "version": "r1"}', ephemeral=True)
    targets = {"version": "r2", "sequence": 7, "strategy": "deployment-strategy", "ordered": "r2"}
    write_node(client, "/zkdeployment/targets", targets)
    client.create(LEADER, b"ops1 (process 7)", makepath=True)
    client.create("/zkdeployment/rollouts", b'{"current": "7-1"}')
    client.create(STATE, encode_state(begun_rollout(MANUAL, plain_hosts("xy"), begun=time.time())))
    return client


def put(fleet, state):
    fleet.set(STATE, encode_state(state))


def asked(zookeeper):
    with Session(zookeeper) as session:
        acts = read_new_acts(session, read_state(session)).acts
        audited = [(act.by, act.what, act.reason) for act in read_acts(session)]
    return [(act.number, act.directive.value, act.group) for act in acts], audited


def test_show_draws_the_groups_as_a_tree_and_exits_with_4_during_a_rollout(run, fleet):
    put(fleet, active_rollout(begun_rollout(MANUAL, plain_hosts("xy"), begun=time.time()), granted=["x"]))
    code, out, _ = run("rollout", "show")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 4
    assert re.fullmatch(r"rollout 7-1 of r2 by deployment-strategy, begun \d+ s ago", lines[0])
    (db,) = [line for line in lines if line.startswith("db preparing 0/1")]
    assert db.endswith("0 of 1 hosts finished prepare; active: x.example.com (x)")
    assert any(line.startswith("web waiting 0/1") and "after db; then the group" in line for line in lines)
    assert "    web" in out
    assert lines[-1] == "db is preparing; 0 of 2 groups succeeded"


def test_a_group_that_waits_for_an_operator_is_a_decision(run, fleet):
    begun = begun_rollout(MANUAL, plain_hosts("xy"), begun=time.time() - 900)
    put(fleet, replace(advanced_rollout(begun, until="web"), waiting="web waits", waiting_since=time.time() - 720))
    due = "group web has waited for a decision for 12 min: it is manual; "
    due += "'zkdeployment rollout promote web --reason TEXT' continues"
    code, out, _ = run("status")
    assert (code, due in " ".join(out.split())) == (4, True)
    (decision,) = json.loads(run("status", "-o", "json")[1])["decisions"]
    assert (decision["group"], decision["command"]) == ("web", "zkdeployment rollout promote web --reason TEXT")
    code, out, _ = run("monitor", "--cluster")
    assert (code, due in out) == (1, True)


@pytest.mark.parametrize(("failing", "code", "state"), [((), 0, "success"), (("x",), 4, "success with failures")])
def test_the_exit_code_shows_whether_all_hosts_succeeded(run, fleet, failing, code, state):
    result = advanced_rollout(begun_rollout(strategy(group("db", hosts="x")), plain_hosts("x")), *failing)
    put(fleet, ended_rollout(replace(result, errors=dict.fromkeys(failing, "deploy /db 0: exit status 1"))))
    drawn = run("rollout", "show")
    assert drawn[0] == code
    assert "at work" not in drawn[1]
    _, out, _ = run("rollout", "show", "7-1", "-o", "json")
    shown = json.loads(out)
    assert (shown["schema"], shown["state"]) == ("zkdeployment/rollout/v1", state)
    assert shown["errors"] == dict.fromkeys(failing, "deploy /db 0: exit status 1")
    assert yaml.safe_load(run("rollout", "show", "-o", "yaml")[1]) == shown


def test_show_counts_hosts_and_lists_failed_and_only_prepared_hosts(run, fleet):
    hosts = plain_hosts("abcdefghijxy")
    begun = begun_rollout(strategy(group("db", hosts="abcdefghijx")), hosts)
    prepared = record(begun.rollout, next_task(begun.rollout), ["x"])
    errors = {host: f"no space left on {host}" for host in "abcdefghij"}
    put(fleet, ended_rollout(replace(begun, rollout=prepared, errors=errors)))
    lines = run("rollout", "show")[1].splitlines()
    counts = lines.index("12 hosts: 10 failed, 1 prepared only, 1 not started")
    assert lines[counts + 1 : counts + 11] == [f"{host}: no space left on {host}" for host in "abcdefghij"]
    assert lines[counts + 11 : counts + 13] == [
        "prepared only: x.example.com (x)",
        "not started: y",
    ]


def test_watching_a_pipe_gets_lines_and_ends_with_the_rollout(run, fleet):
    put(fleet, ended_rollout(advanced_rollout(begun_rollout(strategy(group("db", hosts="x")), plain_hosts("x")))))
    code, out, _ = run("rollout", "show", "--watch")
    assert (code, out) == (0, "db: success\nrollout 7-1: success: 1 of 1 groups succeeded\n")


def test_after_a_resume_another_attempt_is_waited_for(run, fleet):
    group_of_x = strategy(group("db", hosts="x", critical=True, minimum_successful=1))
    failed = ended_rollout(advanced_rollout(begun_rollout(group_of_x, plain_hosts("x")), "x"))
    put(fleet, failed)
    assert run("rollout", "show")[1].rstrip().endswith("another attempt has not begun")

    def begin():
        second = ended_rollout(advanced_rollout(replace(begun_rollout(group_of_x, plain_hosts("x")), attempt=2)))
        fleet.create("/zkdeployment/rollouts/7-2", encode_state(second))
        fleet.set("/zkdeployment/rollouts", b'{"current": "7-2"}')

    timer = threading.Timer(1.0, begin)
    timer.start()
    code, out, _ = run("rollout", "show", "--watch")
    timer.join()
    assert (code, out.splitlines()[-1]) == (0, "rollout 7-2: success: 1 of 1 groups succeeded")
    fleet.delete(LEADER)
    put(fleet, failed)
    fleet.set("/zkdeployment/rollouts", b'{"current": "7-1"}')
    assert "another attempt has not begun: no coordinator runs" in run("rollout", "show")[1]
    fleet.set("/hosts", b'{"version": null}')
    assert "another attempt" not in run("rollout", "show")[1]


@pytest.mark.parametrize(
    ("argv", "number"),
    [
        (("promote", "web"), ("promote", "web")),
        (("pause",), ("pause", None)),
        (("abort",), ("abort", None)),
    ],
)
def test_directives_of_operators_are_written_for_the_coordinator_and_audited(run, fleet, zookeeper, argv, number):
    put(fleet, WAITING)
    code, out, err = run("rollout", *argv, "--reason", "looks good")
    assert (code, out.split()[-1]) == (0, "7-1")
    assert "no coordinator runs" not in err
    acts, audited = asked(zookeeper)
    assert acts == [(0, *number)]
    assert audited == [("ann@adm1", f"rollout {' '.join(argv)}", "looks good")]


def test_directives_are_numbered_above_the_processed_directives(run, fleet, zookeeper):
    put(fleet, replace(WAITING, last_act_number=4))
    run("rollout", "pause", "--reason", "one")
    run("rollout", "promote", "web", "--reason", "two")
    assert [number for number, *_ in asked(zookeeper)[0]] == [5, 6]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("promote", "db"), "the group db is not manual"),
        (("promote", "web"), "the group web does not wait for a promotion: db is still waiting"),
        (("promote", "nobody"), "there is no group nobody in deployment-strategy; expected one of: web, db"),
        (("resume",), "the rollout 7-1 is not paused"),
    ],
)
@pytest.mark.usefixtures("fleet")
def test_an_inapplicable_directive_is_refused_and_nothing_is_written(run, zookeeper, argv, message):
    code, _, err = run("rollout", *argv, "--reason", "why not")
    assert code == 3
    assert message in err
    assert asked(zookeeper) == ([], [])


def test_a_missing_coordinator_is_reported(run, fleet):
    fleet.delete(LEADER)
    code, _, err = run("rollout", "pause", "--reason", "stop it")
    assert (code, err.splitlines()[0]) == (
        0,
        "no coordinator runs: the directive takes effect when a coordinator runs",
    )
    assert "no coordinator runs, so the rollout does not continue" in run("rollout", "show")[1]
    assert "no coordinator runs" in run("why", "x")[1]


def test_an_unprocessed_directive_counts_and_can_be_reverted(run, fleet, zookeeper):
    fleet.delete(LEADER)
    assert run("rollout", "pause", "--reason", "stop it")[0] == 0
    assert "is paused already" in run("rollout", "pause", "--reason", "stop it")[2]
    assert run("rollout", "resume")[0] == 0
    assert "is not paused" in run("rollout", "resume")[2]
    assert run("rollout", "abort", "--reason", "no good")[0] == 0
    code, _, err = run("rollout", "promote", "web", "--reason", "looks good")
    assert (code, "the rollout 7-1 is over: aborted" in err) == (3, True)
    assert asked(zookeeper)[0] == [(0, "pause", None), (1, "resume", None), (2, "abort", None)]


def test_directives_are_refused_for_a_rollout_that_a_newer_publication_replaces(run, fleet, zookeeper):
    newer = {"version": "r3", "sequence": 8, "strategy": "deployment-strategy", "ordered": "r3"}
    write_node(fleet, "/zkdeployment/targets", newer)
    code, _, err = run("rollout", "pause", "--reason", "stop it")
    assert (code, "none was begun for what is published" in err) == (3, True)
    assert asked(zookeeper) == ([], [])


@pytest.mark.usefixtures("fleet")
def test_a_directive_without_a_reason_is_a_usage_error(run, zookeeper):
    code, _, err = run("rollout", "abort")
    assert code == 2
    assert "--reason TEXT" in err
    assert asked(zookeeper) == ([], [])


@pytest.mark.parametrize(
    ("targets", "argv", "message"),
    [
        ({"version": "r2"}, ("show",), "no strategy is published, so all hosts deploy a revision at once"),
        ({"version": "r2", "sequence": 8, "strategy": "s", "ordered": "r2"}, ("show",), "has not begun yet"),
        ({"version": "r2"}, ("show", "6-1"), "there is no rollout 6-1"),
    ],
)
def test_the_reason_for_a_missing_rollout_is_reported(run, fleet, targets, argv, message):
    write_node(fleet, "/zkdeployment/targets", targets)
    code, out, err = run("rollout", *argv)
    assert (code, out) == (3, "")
    assert message in err


def test_status_shows_the_state_of_the_rollout_and_a_wait_ends_with_the_rollout(run, fleet):
    assert "rollout 7-1: 0 of 2 groups succeeded" in run("status")[1]
    put(fleet, ended_rollout(advanced_rollout(begun_rollout(MANUAL, plain_hosts("xy")), "x")))
    assert run("status", "--wait", "--timeout", "60")[0] == 3


def test_an_unreadable_rollout_does_not_hide_the_fleet(run, fleet):
    fleet.set(STATE, b"nonsense")
    code, out, _ = run("status")
    assert (code, "x.example.com" in out) == (4, True)
    for argv in (("pause", "--reason", "what is this"), ("show",)):
        code, _, err = run("rollout", *argv)
        assert code == 1
        assert "has a rollout that cannot be read" in err
        assert "'zkdeployment resume --latest'" in err


def test_groups_that_may_be_promoted_are_completed(fleet, zookeeper, monkeypatch, capsys):
    put(fleet, WAITING)
    monkeypatch.setenv("_ZKDEPLOYMENT_COMPLETE", "bash_complete")
    monkeypatch.setenv("ZC_ZK_CONNECTION_STRING", zookeeper)
    monkeypatch.setenv("COMP_WORDS", "zkdeployment rollout promote ")
    monkeypatch.setenv("COMP_CWORD", "3")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == "plain,web\n"


def test_the_history_keeps_the_report_of_every_attempt(run, fleet):
    record = PublicationRecord("r2", time.time(), sequence=7)
    fleet.create("/zkdeployment/history/0000000007", encode(record.to_json()), makepath=True)
    state = begun_rollout(strategy(group("db", hosts="x", critical=True, minimum_successful=1)), plain_hosts("x"))
    put(fleet, ended_rollout(advanced_rollout(state, "x")))
    second = ended_rollout(advanced_rollout(replace(state, attempt=2)))
    fleet.create("/zkdeployment/rollouts/7-2", encode_state(second))
    fleet.create("/zkdeployment/rollouts/7-3", b"nonsense")
    fleet.create("/zkdeployment/rollouts/70-1", encode_state(replace(second, sequence=70)))
    _, out, _ = run("history", "show", "7")
    why = "prepare: 0 of 1 hosts successful, expected at least 1"
    assert out.splitlines()[-2:] == [
        f"rollout 7-1 of r2: failed; 1 host: 1 failed; critical group db failed ({why}); failed: x",
        "rollout 7-2 of r2: success; 1 host: 1 succeeded",
    ]
    shown = json.loads(run("history", "show", "7", "-o", "json")[1])["rollouts"]
    assert [(entry["id"], entry["state"]) for entry in shown] == [("7-1", "failed"), ("7-2", "success")]

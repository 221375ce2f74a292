"""``zkdeployment fleets`` and ``promote``, with a real ZooKeeper, a real git repository and a real HTTP server."""

import json
import shutil

import pytest

from support.fleets.staged import StagedFleet, staged_fleets
from zkdeployment.config import settings
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.programs.main import main
from zkdeployment.promotion.acts import open_main
from zkdeployment.promotion.records import FleetState

CANARY = {
    "name": "canary",
    "critical": True,
    "depends_on": [],
    "selectors": [{"node_tags": ["eu"]}],
    "success_criteria": {"percent_successful_nodes": 100},
}
REST = CANARY | {"name": "rest", "depends_on": ["canary"], "selectors": []}
MANUAL = REST | {"manual": True}


@pytest.fixture
def fleets(tmp_path, zookeeper, session):
    with staged_fleets(tmp_path, zookeeper, session, "eu-1", "us-1", "us-2") as staged:
        yield staged


@pytest.fixture
def run(zookeeper, capsys, monkeypatch, tmp_path, fleets):
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "adm1")
    monkeypatch.setenv("ZC_ZK_CONNECTION_STRING", zookeeper)
    config = tmp_path / "zkdeployment.cfg"
    lines = [
        "[zkdeployment]",
        f"zookeeper = {zookeeper}",
        "[promote]",
        f"url = {fleets.repository.bare}",
        f"directory = {tmp_path / 'unused'}",
        f"token-directory = {fleets.tokens}",
        f"operator-token-directory = {fleets.tokens}",
    ]
    config.write_text("\n".join(lines) + "\n")

    def call(*argv: str):
        capsys.readouterr()  # the log of the promoter
        with pytest.raises(SystemExit) as end:
            main([*argv, "--config", str(config)])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


def test_without_fleets_the_reason_is_given(run):
    code, _, err = run("fleets")
    assert (code, "no promoter runs" in err) == (3, True)
    code, _, err = run("promote", "show")
    assert (code, "there is no promotion: no promoter runs" in err) == (3, True)


def test_fleets_are_shown_the_worst_first(run, fleets):
    commit = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(commit)
        running.until(fleets.have_converged, "the fleets have converged")
        code, out, _ = run("fleets")
        assert code == 0
        assert f"promotion 1-1 of {commit[:12]}: success" in out
        fleets.fleets["us-2"].state = FleetState.STOPPED
        fleets.fleets["us-2"].problem = "no repository has the package hello 9.9"
        running.until(lambda: fleets.records.standings["us-2"].state is FleetState.STOPPED, "us-2 is stopped")
        code, out, _ = run("fleets")
        assert code == 4
        rows = [line.split() for line in out.splitlines() if "-1" in line or "-2" in line]
        assert [row[0] for row in rows[:3]] == ["us-2", "eu-1", "us-1"]
        code, out, _ = run("fleets", "-o", "json")
    status = json.loads(out)
    assert (code, status["schema"], status["main"]) == (4, "zkdeployment/fleets/v1", commit)
    assert [fleet["name"] for fleet in status["fleets"]] == ["us-2", "eu-1", "us-1"]
    assert status["fleets"][0]["service"] == f"{fleets.url}/us-2"


def test_a_resumed_promotion_names_the_stopped_fleets(run, fleets):
    commit = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        assert run("promote", "pause", "--reason", "wait")[0] == 0
        fleets.fleets["us-1"].state = FleetState.STOPPED
        fleets.fleets["us-1"].by = "bob"
        running.until(lambda: fleets.records.standings["us-1"].state is FleetState.STOPPED, "us-1 is stopped")
        running.until(lambda: fleets.promotion.paused, "the promotion is paused")
        code, out, err = run("promote", "resume")
    assert (code, out) == (0, "resumed promotion 1-1\n")
    assert err.startswith("stopped, so that hosts there start nothing: us-1")
    assert (
        "'zkdeployment resume --latest' in the fleet, or 'zkdeployment fleets resume --latest', ends that" in err
    )


def test_fleets_resume_at_the_tips_of_their_branches(run, fleets):
    fleets.push(CANARY, REST)
    code, out, _ = run("fleets", "resume", "--latest", "--reason", "rolled back")
    assert (code, out) == (0, "eu-1: resumed\nus-1: resumed\nus-2: resumed\n")
    assert fleets.performed == [(name, "resume --latest", "rolled back") for name in ("eu-1", "us-1", "us-2")]


def test_why_explains_what_a_fleet_waits_for(run, fleets):
    commit = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        running.until(lambda: "promote promote rest" in fleets.promotion.waiting, "the group waits")
        code, out, _ = run("fleets", "why", "us-1")
        assert code == 0
        assert "branch fleets/us-1 does not exist yet" in out
        assert f"promotion 1-1 of {commit[:12]}: not started; its group rest is waiting" in out
        assert "the group is manual and waits to be promoted" in out
        code, out, _ = run("promote", "withhold", "us-1", "--reason", "the data centre moves")
        assert (code, out) == (0, "withheld us-1\n")
        _, out, _ = run("fleets", "why", "us-1", "-o", "json")
    explained = json.loads(out)
    assert explained["fleet"]["withheld"]["reason"] == "the data centre moves"
    assert any("'zkdeployment promote release us-1' ends that" in line for line in explained["words"])
    assert run("fleets", "why", "eu-9")[0] == 3


def test_operators_direct_a_promotion(run, fleets):
    commit = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        assert run("promote", "pause", "--reason", "latency is up")[:2] == (0, "paused promotion 1-1\n")
        code, out, _ = run("promote", "show", "-o", "json")
        shown = json.loads(out)
        assert (code, shown["schema"], shown["revision"]) == (4, "zkdeployment/promotion/v1", commit)
        assert shown["promoter"] == "promoter 1"
        assert run("promote", "resume")[:2] == (0, "resumed promotion 1-1\n")
        running.until(lambda: "rest waits for" in fleets.promotion.waiting, "the rest waits to be promoted")
        promoted = run("promote", "promote", "rest", "--reason", "fine")
        assert promoted[:2] == (0, "promoted rest of promotion 1-1\n")
        running.until_ended(commit)
        code, out, _ = run("promote", "show")
        assert (code, "promotion 1-1 of" in out, "3 fleets: 3 succeeded" in out) == (0, True, True)
    assert run("promote", "abort", "--reason", "too late")[0] == 3
    acts = [(act.by, act.what, act.reason) for act in read_acts(fleets.session)]
    assert ("ann@adm1", "promotion pause", "latency is up") in acts
    assert ("ann@adm1", "promotion promote rest", "fine") in acts


def test_an_aborted_promotion_ends_and_another_attempt_can_be_made(run, fleets):
    commit = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == commit, "the canary has the revision")
        assert run("promote", "abort", "--reason", "1.3 loses sessions")[0] == 0
        running.until_ended(commit)
        assert run("promote", "resume", "--reason", "again")[0] == 0
        running.until(lambda: fleets.promotion.id == "1-2", "another attempt has begun")


def test_a_fleet_is_withheld_and_released(run, fleets):
    fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        assert run("promote", "withhold", "us-1", "--reason", "it moves")[0] == 0
        assert run("promote", "withhold", "us-1", "--reason", "it moves")[0] == 3
        running.until_ended()
        assert fleets.branch("us-1") == ""
        assert run("promote", "release", "us-1", "--reason", "it has moved")[0] == 0
        assert run("promote", "release", "us-1", "--reason", "it has moved")[0] == 3
        running.until(lambda: fleets.branch("us-1"), "the fleet gets the revision late")


def test_all_fleets_are_stopped_with_a_line_for_each(run, fleets):
    fleets.push(CANARY, REST)
    fleets.fleets["us-1"].is_away = True
    code, out, err = run("fleets", "stop", "--reason", "web 1.3 loses sessions")
    lines = out.splitlines()
    assert code == 1
    assert [lines[0], lines[2]] == ["eu-1: stopped", "us-2: stopped"]
    assert lines[1].startswith("us-1: NOT stopped: the service at")
    assert "1 fleet of 3 not stopped" in err
    reason = "web 1.3 loses sessions"
    assert fleets.performed == [("eu-1", "stop", reason), ("us-2", "stop", reason)]
    fleets.fleets["us-1"].is_away = False
    code, out, _ = run("fleets", "resume", "--reason", "false alarm")
    assert (code, out) == (0, "eu-1: resumed\nus-1: resumed\nus-2: resumed\n")
    assert run("fleets", "hold", "--reason", "repair")[0] == 0


@pytest.mark.usefixtures("run")
def test_fleets_of_the_configuration_before_the_act_are_stopped(fleets, tmp_path, capsys, monkeypatch):
    fleets.push(CANARY, REST)
    monkeypatch.setattr(settings, "SYSTEM_CONFIGURATION", tmp_path / "missing.cfg")
    with pytest.raises(SystemExit) as end:
        main(["fleets", "--config", str(tmp_path / "zkdeployment.cfg"), "stop"])
    lines = capsys.readouterr().out.splitlines()
    assert (end.value.code, lines) == (0, ["eu-1: stopped", "us-1: stopped", "us-2: stopped"])


def test_all_fleets_are_stopped_also_while_the_git_server_is_away(run, fleets):
    fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until(lambda: fleets.records.standings, "the promoter knows the fleets")
    fleets.repository.bare.rename(fleets.repository.bare.with_name("away.git"))
    code, out, err = run("fleets", "stop", "--reason", "web 1.3 loses sessions")
    assert (code, sorted(out.splitlines())) == (0, ["eu-1: stopped", "us-1: stopped", "us-2: stopped"])
    assert "there is no git repository at" in err
    assert "; the fleets are those that the promoter recorded last" in err


def test_all_known_fleets_are_stopped_before_the_git_server_is_read(run, fleets, monkeypatch):
    fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until(lambda: fleets.records.standings, "the promoter knows the fleets")
    fleets.fleets["asia-1"] = StagedFleet()
    shutil.copy(fleets.tokens / "us-1", fleets.tokens / "asia-1")
    fleets.push(CANARY, REST)
    performed = []

    def read_main(*arguments):
        performed.append([name for name, _, _ in fleets.performed])
        return open_main(*arguments)

    monkeypatch.setattr("zkdeployment.promotion.verbs.fleets.open_main", read_main)
    for verb, done in (("stop", "stopped"), ("hold", "held"), ("resume", "resumed")):
        fleets.performed.clear()
        code, out, _ = run("fleets", verb, "--reason", "why")
        lines = out.splitlines()
        assert (code, sorted(lines[:3]), lines[3:]) == (
            0,
            [f"{name}: {done}" for name in ("eu-1", "us-1", "us-2")],
            [f"asia-1: {done}"],
        )
    assert performed == [["eu-1", "us-1", "us-2"]] * 3


def test_without_any_known_fleet_the_verb_has_failed(run, fleets):
    fleets.repository.bare.rename(fleets.repository.bare.with_name("away.git"))
    code, out, err = run("fleets", "stop")
    assert (code != 0, out) == (True, "")
    assert "there is no git repository at" in err


def test_a_rollback_goes_first_to_the_bad_fleets(run, fleets):
    fleets.push(CANARY, REST)
    good = fleets.change("/good")
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.fleets["eu-1"].state = FleetState.STOPPED
        bad = fleets.change("/bad")
        running.until_ended(bad)
        code, _, err = run("promote", "rollback", "--reason", "bad", "--dry-run")
        assert (code, f"back to {good[:12]}; this undoes:" in err) == (0, True)
        assert fleets.repository.tip() == bad
        code, out, _ = run("promote", "rollback", "--reason", "it is bad")
        commit = out.strip()
        assert (code, commit) == (0, fleets.repository.tip())
        assert fleets.repository.files()["tree.zk"] == "/good\n/bad\n"  # a node that is empty
        message = fleets.repository.ask("log", "-1", "--format=%B", "main")
        assert f"Rolls-Back-Promotion: {bad}" in message
        fleets.fleets["eu-1"].state = None
        running.until_ended(commit)
    assert fleets.records.history[0].rolls_back == bad
    assert set(fleets.branches().values()) == {commit}
    assert any("roll back promotions to" in act.what for act in read_acts(fleets.session))


def test_a_branch_that_diverged_is_reset_and_the_reset_is_recorded(run, fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        own = fleets.own_commit("eu-1")
        assert run("promote", "reset", "us-1", "--reason", "why not")[0] == 3
        code, _, err = run("promote", "reset", "eu-1", "--reason", "it is in main", "--dry-run")
        assert (code, "roll back (" in err, fleets.branch("eu-1")) == (0, True, own)
        code, out, _ = run("promote", "reset", "eu-1", "--reason", "it is in main")
        assert (code, out) == (0, f"reset fleets/eu-1 to {good}\n")
        assert fleets.branch("eu-1") == good
    (act,) = [act for act in read_acts(fleets.session) if act.what.startswith("reset")]
    assert act.what == f"reset branch fleets/eu-1 from {own[:12]} to {good[:12]}"


def test_a_diverged_fleet_does_not_hold_up_the_rollback_of_a_promotion(run, fleets):
    fleets.push(CANARY, REST)
    good = fleets.change("/good")
    with fleets.promoter() as running:
        running.until_ended(good)
        bad = fleets.change("/bad")
        running.until_ended(bad)
        own = fleets.own_commit("eu-1")
        rollback = run("promote", "rollback", "--reason", "it is bad")[1].strip()
        running.until_ended(rollback)
        running.cycles()
        assert fleets.branches() == {"eu-1": own, "us-1": rollback, "us-2": rollback}
        _, out, _ = run("promote", "show")
        assert "'zkdeployment promote reset FLEET' lets a fleet that diverged join the promotion: eu-1" in out
        _, out, _ = run("fleets", "why", "eu-1")
        assert "continues without the fleet, which joins after 'zkdeployment promote reset eu-1'" in out
        assert run("promote", "reset", "eu-1", "--reason", "it is in main")[0] == 0
        running.until(lambda: "eu-1" in fleets.promotion.rollout.hosts, "the fleet joins")
        assert fleets.branch("eu-1") == rollback
        assert "promote reset" not in run("promote", "show")[1]


def test_a_reset_after_a_failed_promotion_needs_a_commit(run, fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        fleets.own_commit("us-1")
        fleets.fleets["eu-1"].state = FleetState.STOPPED
        bad = fleets.change("/bad")
        running.until_ended(bad)
    code, _, err = run("promote", "reset", "us-1", "--reason", "x")
    assert (code, "name the commit with --to" in err) == (3, True)
    assert run("promote", "reset", "us-1", "--reason", "x", "--to", good[:12])[0] == 0
    assert fleets.branch("us-1") == good


def test_no_promotion_passes_a_pin_until_it_ends(run, fleets):
    good = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(good)
        code, _, err = run("promote", "pin", "eu-9", "--reason", "why")
        assert (code, "there is no fleet eu-9; expected one of: eu-1, us-1, us-2" in err) == (3, True)
        code, _, err = run("promote", "pin", "us-1", "abcdef", "--reason", "why")
        assert (code, "the main branch does not contain abcdef" in err) == (3, True)
        code, _, err = run("promote", "pin", "us-1", "--until", "yesterday", "--reason", "why")
        assert (code, "until: expected a duration such as 2h" in err) == (2, True)
        code, out, _ = run("promote", "pin", "us-1", "--until", "3d", "--reason", "an audit")
        assert (code, out.startswith(f"us-1 is pinned to {good[:12]} until ")) == (0, True)
        newer = fleets.change("/newer")
        running.until_ended(newer)
        running.cycles()
        assert fleets.branches() == {"eu-1": newer, "us-1": good, "us-2": newer}
        words = out.removeprefix("us-1 is ").strip()
        assert words in " ".join(run("fleets")[1].split())
        assert f"{words}; 'zkdeployment promote unpin us-1' ends that" in run("fleets", "why", "us-1")[1]
        _, out, _ = run("fleets", "-o", "json")
        (pinned,) = [fleet["pin"] for fleet in json.loads(out)["fleets"] if fleet["pin"]]
        assert (pinned["revision"], pinned["by"], pinned["reason"]) == (good, "ann@adm1", "an audit")
        code, _, err = run("promote", "pin", "us-2", good, "--reason", "why")
        assert (code, f"{good[:12]} is older than {newer[:12]}" in err) == (3, True)
        assert run("promote", "unpin", "us-1", "--reason", "it is over")[:2] == (0, "unpinned us-1\n")
        running.until(lambda: fleets.branch("us-1") == newer, "the fleet joins late")
        assert run("promote", "unpin", "us-1", "--reason", "why")[0] == 3
    acts = [act.what for act in read_acts(fleets.session)]
    assert acts == ["pin fleet us-1 until 3d", "unpin fleet us-1"]


def test_a_chosen_commit_is_promoted_and_newer_ones_wait(run, fleets):
    first = fleets.push(CANARY, REST)
    with fleets.promoter() as running:
        running.until_ended(first)
        code, _, err = run("promote", "run-from", "abcdef", "--reason", "why")
        assert (code, "the main branch does not contain abcdef" in err) == (3, True)
        fleets.fleets["eu-1"].state = FleetState.ROLLING_OUT
        second = fleets.change("/second")
        running.until(lambda: fleets.branch("eu-1") == second, "the canary has the revision")
        third = fleets.change("/third")
        fourth = fleets.change("/fourth")
        running.until(lambda: fleets.records.report.main == fourth, "the promoter has read the commits")
        code, _, err = run("promote", "run-from", first[:9], "--reason", "why")
        assert (code, "a step back: eu-1 has a newer commit and keeps it" in err) == (3, True)
        code, out, err = run("promote", "run-from", third[:9], "--reason", "an audit")
        words = f"promotions run from {third[:12]}, chosen by ann@adm1: an audit"
        assert (code, out) == (0, f"{words}\n")
        assert f"promotion 2-1 of {second[:12]} ends first" in err
        assert run("promote", "run-from", third, "--reason", "why")[0] == 3
        fleets.fleets["eu-1"].state = None
        running.until_ended(third)
        running.cycles()
        assert set(fleets.branches().values()) == {third}
        waits = f"{words}; newer commits wait until 'zkdeployment promote follow'"
        for verb in (["fleets"], ["fleets", "why", "eu-1"], ["promote", "show"]):
            assert waits in " ".join(run(*verb)[1].split())
        chosen = [entry.chosen for entry in fleets.records.history]
        assert chosen == ["chosen by ann@adm1: an audit", "", ""]
        assert run("promote", "follow", "--reason", "it is over")[0] == 0
        running.until_ended(fourth)
        assert run("promote", "follow", "--reason", "it is over")[0] == 3
        fleets.fleets["eu-1"].refusals = ("no package hello",)
        bad = fleets.change("/bad")
        running.until_ended(bad)
        running.until(lambda: fleets.records.report.main == bad, "the promoter has read the commit")
        code, _, err = run("promote", "run-from", bad[:9], "--reason", "why")
        assert (code, f"of {bad[:12]} ended before: failed" in err) == (3, True)
        code, _, err = run("promote", "run-from", third[:9], "--confirm", "--reason", "to bring us-3 there")
        assert code == 0
        running.until_ended(third)
        assert set(fleets.branches().values()) == {fourth}, "no branch moves back"


def test_the_plan_of_the_next_commit_is_that_of_the_service_of_the_fleet(run, fleets):
    good = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        running.until(lambda: fleets.branch("eu-1") == good, "the canary has the revision")
        code, out, _ = run("promote", "plan", "us-1")
        assert (code, out) == (4, f"us-1: from nothing to {good[:12]}\n+ /new\n\n- us-1 would change\n")
        code, out, _ = run("promote", "plan", "eu-1", good[:9], "-o", "json")
        assert (code, json.loads(out)["published"]) == (0, good)
        code, _, err = run("promote", "plan", "us-9")
        assert (code, "there is no fleet us-9" in err) == (3, True)
        code, _, err = run("promote", "plan", "us-1", "abcdef")
        assert (code, "the main branch does not contain abcdef" in err) == (3, True)
        fleets.fleets["us-1"].is_away = True
        code, _, err = run("promote", "plan", "us-1")
        assert (code, "ZooKeeper is away" in err) == (1, True)

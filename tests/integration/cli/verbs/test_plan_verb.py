"""The plan command predicts the agents' steps. Real ZooKeeper, git, agents and scripts; fake packages."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from support.forks import run_forked
from support.repository import Repository
from support.waiting import wait_until
from zkdeployment.agent.daemon import plans
from zkdeployment.agent.rules.plan_text import describe
from zkdeployment.agent.rules.planner import plan

TREE = """\
/who
  /one : foo small
    version = '{foo}'
    /deploy
      /h1
        n = {n}
  /two : bar
    version = '{bar}'
    /deploy
      /web
/roles
  /web : {controller}
    version = '1.0'
"""
BEFORE = TREE.format(foo="1.0", n=2, bar="1.0", controller="ctl")
AFTER = (
    TREE.format(foo="2.0", n=1, bar="2.0", controller="ctl2")
    + """\
/extra
  /three : bar
    version = '1.0'
    /deploy
      /h1
"""
)
KEPT = TREE.format(foo="2.0", n=2, bar="1.0", controller="ctl")


@pytest.fixture
def run(zookeeper, tmp_path, publishing):
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(
        f"[zkdeployment]\nzookeeper = {zookeeper}\n"
        f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {tmp_path}/mirror\n"
    )

    def call(*argv):
        done = run_forked("plan", "--config", str(config), *map(str, argv))
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def converged(fleet, publishing):
    """Three hosts with running agents, two of them with a role, that converged to the first revision."""
    hosts = [fleet.host("h1"), fleet.host("h2", role="web"), fleet.host("h3", role="web")]
    publishing.push(BEFORE)
    publishing.sync()
    with ExitStack() as agents:
        for host in hosts:
            agents.enter_context(host.agent())
        for host in hosts:
            wait_until(lambda host=host: host.has_finished(publishing.version), f"{host.id} is done")
        yield hosts


def script_calls(steps):
    """Return the calls that the scripts of planned steps record when they start."""
    for step in steps:
        if "script" in step:
            controller = (step["script"],) if step["step"].endswith("-deployments") else ()
            yield " ".join((*controller, *step["arguments"]))


def test_agents_execute_exactly_the_planned_steps(run, converged, fleet, publishing, tmp_path, monkeypatch):
    made = []

    def planning(*values, **options):
        made.append(plan(*values, **options))
        return made[-1]

    monkeypatch.setattr(plans, "plan", planning)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.zk").write_text(AFTER)
    code, out, _ = run(str(tmp_path / "tree"), "-o", "json")
    assert code == 4
    planned = {host["id"]: host["steps"] for host in json.loads(out)["hosts"]}
    assert {host["id"]: host["outlook"] for host in json.loads(out)["hosts"]} == dict.fromkeys(planned, "changes")
    before = len(fleet.calls())
    publishing.push(AFTER)
    publishing.sync()
    for host in converged:
        wait_until(lambda host=host: host.has_finished(publishing.version), f"{host.id} is done")
    executed = [describe(step) for step in made]
    assert sorted(map(str, executed)) == sorted(map(str, planned.values()))
    for host in converged:
        begun = [
            call.removeprefix(f"{host.id} start ") for call in fleet.calls()[before:] if f"{host.id} start" in call
        ]
        assert begun == list(script_calls(planned[host.id]))
    assert "-u /who/one 1" in script_calls(planned["h1"])
    assert "starting-deployments /roles/web" in script_calls(planned["h2"])
    assert run("-o", "json")[0] == 0, "the branch's tip is what hosts have now"


@pytest.mark.usefixtures("converged")
def test_text_output_groups_hosts_with_the_same_changes(run, publishing):
    publishing.repository.git("checkout", "-q", "-b", "proposal")
    publishing.push(KEPT)
    publishing.repository.git("checkout", "-q", "main")
    code, out, err = run("--revision", "proposal")
    assert (code, err) == (4, "")
    lines = out.splitlines()
    assert lines[0].endswith("- hosts: 1 change, 2 run again what they have; nodes of the tree: 1 changed")
    assert [line.rstrip() for line in lines[1:]] == [
        "",
        "h1.example.com (h1): would change",
        "   1. change packages (foo 2.0): foo 1.0 to 2.0",
        "   2. deploy /who/one 0 (foo small 2.0): package changed from foo 1.0 to 2.0",
        "      runs zookeeper-deploy -r small /who/one 0 under the lock of /who/one",
        "   3. deploy /who/one 1 (foo small 2.0): package changed from foo 1.0 to 2.0",
        "      runs zookeeper-deploy -r small /who/one 1 under the lock of /who/one",
        "",
        "h2.example.com (h2), h3.example.com (h3): would repeat their deployments",
    ]
    code, out, _ = run("--revision", "proposal", "--short")
    assert code == 4
    assert out.splitlines()[1:] == [
        "",
        "- 1 host would change: h1.example.com (h1)",
        "  1. change packages (foo 2.0): foo 1.0 to 2.0",
        "  2. deploy /who/one 0 (foo small 2.0): package changed from foo 1.0 to 2.0",
        "  3. deploy /who/one 1 (foo small 2.0): package changed from foo 1.0 to 2.0",
        "",
        "- 2 hosts would repeat their deployments: h2.example.com (h2), h3.example.com (h3)",
    ]
    code, out, _ = run("--revision", "proposal", "--host", "h2")
    assert code == 0
    assert "runs starting-deployments /roles/web under the lock of role web" in out
    code, out, err = run("--revision", "proposal", "--host", "h2", "--host", "h22")
    assert (code, out) == (3, "")
    assert "there is no host h22: expected the id or the name of a host that is registered" in err


def test_errors_are_reported_with_their_place_and_nothing_is_planned(run, tmp_path):
    (tmp_path / "bad.zk").write_text("/who\n  /one : foo\n    version = 'a b'\n    /deploy\n      /h1\n")
    code, out, err = run(str(tmp_path / "bad.zk"))
    assert (code, out) == (1, "")
    assert f"{tmp_path}/bad.zk:2:3: " in err


def test_foreign_live_nodes_and_layers_are_treated_as_in_a_publication(run, publishing, tmp_path):
    publishing.put("/foreign", {})
    publishing.put("/foreign/service", {"type": "foo", "version": "1.0"})
    publishing.put("/foreign/service/deploy", {})
    publishing.put("/foreign/service/deploy/h9", {})
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.zk").write_text("/mine\n")
    (tmp_path / "tree" / "b.zkx").write_text("/foreign\n  /service\n    version = '2.0'\n")
    code, out, _ = run(str(tmp_path / "tree"), "-o", "json")
    assert code == 4
    document = json.loads(out)
    assert document["tree"] == {"create": ["/mine"], "update": ["/foreign/service"], "delete": []}
    assert [(host["id"], host["outlook"]) for host in document["hosts"]] == [("h9", "unknown")]


def test_a_revision_that_was_not_pushed_is_planned(run, tmp_path, monkeypatch):
    clone = Repository(tmp_path / "clone")
    clone.commit({"a.zk": "/mine\n"})
    clone.write({"a.zk": "/not/committed\n"})
    monkeypatch.chdir(clone.directory)
    code, out, _ = run("HEAD", "-o", "json")
    assert code == 4
    assert json.loads(out)["tree"] == {"create": ["/mine"], "update": [], "delete": []}


def test_a_path_and_a_revision_at_once_are_refused(run, tmp_path):
    assert run(str(tmp_path), "--revision", "main")[0] == 2


STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata:
  name: deployment-strategy
data:
  groups:
    - name: rest
      critical: false
      depends_on: [canary]
      selectors:
        - rack_names: [r1]
    - name: canary
      critical: true
      manual: true
      depends_on: []
      selectors:
        - node_tags: [early]
"""


def test_the_order_of_a_strategys_groups_is_shown_with_their_hosts(run, publishing, tmp_path):
    publishing.register("h1", None, rack="r1", tags=["early"])
    publishing.register("h2", None, "app2.example.com", rack="r1")
    publishing.register("h9", None)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.zk").write_text("/mine\n")
    (tmp_path / "tree" / "strategy.yaml").write_text(STRATEGY)
    messages = [
        "the order, by deployment-strategy:",
        "   1. canary (critical, manual): h1 (h1)",
        "   2. rest (after canary): app2.example.com (h2)",
        "      with an earlier group: h1 (h1)",
    ]
    others = "in no group, so these hosts keep their version: h9 (h9)"
    code, out, _ = run(str(tmp_path / "tree"))
    assert code == 4
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0].endswith("nodes of the tree: 1 added; strategy: added")
    assert lines[-6:] == ["", *messages, others]
    assert lines[-10:-6] == ["", "add strategy deployment-strategy", "add group rest", "add group canary"]
    assert run(str(tmp_path / "tree"), "--short")[1].splitlines()[-5:] == [
        f"- {messages[0]}",
        *messages[1:],
        f"- {others}",
    ]
    order = json.loads(run(str(tmp_path / "tree"), "-o", "json")[1])["order"]
    assert [(group["name"], group["hosts"], group["before"]) for group in order["groups"]] == [
        ("canary", ["h1"], []),
        ("rest", ["h2"], ["h1"]),
    ]
    assert order["others"] == ["h9"]


def test_files_without_a_strategy_are_planned_with_the_published_strategy(run, publishing, tmp_path):
    publishing.push("/mine\n", strategy_yaml=STRATEGY)
    publishing.sync()
    (tmp_path / "a.zk").write_text("/mine\n")
    code, out, _ = run(str(tmp_path / "a.zk"))
    assert code == 0
    assert "   1. canary (critical, manual): no hosts" in out
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.zk").write_text("/mine\n")
    code, out, _ = run(str(tmp_path / "tree"))
    assert code == 4
    assert "delete strategy deployment-strategy" in out


PLACES = "".join(f"  /n{number}\n    greeting = '{{greeting}}'\n" for number in range(12))
GREETING = (
    "/who\n  /one : foo\n    version = '1.0'\n    greeting = '{greeting}'\n    /deploy\n      /h1\n" + PLACES
)


def test_after_an_interrupted_publication_the_plan_starts_from_the_deployed_versions(
    run, publishing, fleet, tmp_path, monkeypatch
):
    before, after = GREETING.format(greeting="hello"), GREETING.format(greeting="goodbye")
    first = publishing.push(before)
    publishing.sync()
    host = fleet.host("h1")
    with host.agent():
        wait_until(lambda: host.has_finished(publishing.version), "h1 is done")
    publishing.push(after)
    publishing.interrupt(monkeypatch, after=4)
    assert publishing.nodes("/who")["/who/n9"] == {"greeting": "goodbye"}, "the live tree has parts of it"
    code, out, err = run("-o", "json")
    plan_of_tip = json.loads(out)
    assert (code, [entry["outlook"] for entry in plan_of_tip["hosts"]]) == (4, ["changes"])
    assert "/who/n9" in plan_of_tip["tree"]["update"]
    assert "is not complete: it is under way, or was interrupted; the plan shows what changes for hosts" in err
    assert f"last ordered to deploy {first[:12]}" in err
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.zk").write_text(before)
    code, out, _ = run(str(tmp_path / "tree"), "-o", "json")
    back = json.loads(out)
    assert (code, back["tree"]) == (0, {"create": [], "update": [], "delete": []})
    assert [entry["outlook"] for entry in back["hosts"]] == ["repeats"]
    publishing.sync()
    assert run("-o", "json")[2] == ""

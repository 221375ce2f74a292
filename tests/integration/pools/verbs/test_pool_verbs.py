"""The verbs about pools, nodes and sessions, on a real ZooKeeper with a stand-in for the worker."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import replace

import pytest
from nagiosplugin import Range

from support.commands import invoke
from support.pools.builders import add_ready_nodes, add_tenant, contextualizing
from support.pools.simulated_nodes import SimulatedNodes
from support.pools.workers import TestWorker
from support.waiting import wait_until
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.fleet.views.fleet_health import fleet_health
from zkdeployment.fleet.views.health import HealthLimits
from zkdeployment.pools.acts.sessions import SessionActor, cancel_request, queue_request
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.pools.rules.node import NodeEvent, NodeState, fail
from zkdeployment.pools.rules.results import PlaybookRun
from zkdeployment.pools.rules.snapshot import FillingRecord, NodesSpec, PoolChange
from zkdeployment.pools.store import store as pool_store
from zkdeployment.pools.store.store import ZooKeeperPlaybookLog, ZooKeeperPools
from zkdeployment.programs.monitor import read_fleet
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.user_store import ZooKeeperUsers
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create

DOCUMENT = """\
schema: zkdeployment/Pools/v1
metadata: {name: pools}
data:
  nodepools:
    abstract:
      any:
        mechanism: {type: ansible, ansible: {topdir: /, provision: {playbook: p}, deprovision: {playbook: d}}}
    concrete:
      web: {extends: any, fill-level: 2}
      attic: {extends: any}
"""


class Site:
    """A ZooKeeper with published pools and a tenant."""

    def __init__(self, zookeeper, session) -> None:
        self.zookeeper, self.session = zookeeper, session
        self.store = ZooKeeperPools(session)
        self.users = ZooKeeperUsers(session, (), KeyHasher(), SystemClock())

    def run(self, *argv, status=0):
        done = invoke(*argv, "-z", self.zookeeper, env={"SUDO_USER": "ann"})
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def json(self, *argv):
        return json.loads(self.run(*argv, "-o", "json").stdout)

    def acts(self):
        return [act.what for act in read_acts(self.session) if act.by.startswith("ann@")]

    def states(self):
        return {node.state.value for node in self.store.read().nodes.values()}

    def change(self, number, change):
        read = self.store.read()
        self.store.commit(PoolChange(nodes=(change(read.nodes[number]),)), read)


@pytest.fixture
def site(zookeeper):
    with Session(zookeeper) as session:
        yield Site(zookeeper, session)


@pytest.fixture
def pools(site, publishing):
    publishing.push("/a\n", pools_yaml=DOCUMENT)
    publishing.sync()
    add_tenant(site.users, "ci")
    return site


def test_without_pools_a_worker_or_a_tenant_the_verbs_give_advice(site):
    assert "no pools are published; add a document" in site.run("pool", "list").stderr
    for argv in (("pool", "show", "web"), ("pool", "fill", "web"), ("node", "list", "--pool", "web")):
        assert "there is no pool 'web'; the pools are: none" in site.run(*argv, status=3).stderr
    assert "there is no tenant 'ci'; no user is a tenant; 'zkdeployment user add" in (
        site.run("session", "request", "web=1", "--tenant", "ci", status=3).stderr
    )
    assert "there is no active session" in site.run("session", "list").stderr
    assert "there is no session 9" in site.run("session", "show", 9, status=3).stderr
    assert "there is no node 9" in site.run("node", "drain", 9, status=3).stderr
    assert "no lease of a node was found" in site.run("session", "history").stderr


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("session", "request", "web", "--tenant", "ci"), "expected POOL=N, a pool and a number of nodes above 0"),
        (("session", "request", "web=0", "--tenant", "ci"), "found 'web=0'"),
        (("session", "request", "web=1"), "Missing option '--tenant'"),
        (
            ("session", "extend", "7", "--by", "soon"),
            "expected a duration such as 2h, 1h30m or -30m, found 'soon'",
        ),
        (
            ("session", "request", "web=1", "--tenant", "ci", "--wait", "8d"),
            "expected a duration from 1s to 7d such as 30m, found '8d'",
        ),
        (("session", "extend", "7", "--until", "soon"), "expected a time such as 2027-01-31T18:00, found 'soon'"),
        (("session", "extend", "7"), "expected --by DURATION or --until TIME"),
        (("session", "history", "--since", "soon"), "expected a duration such as 7d, or a date"),
        (
            ("session", "request", "web=1", "--tenant", "ci", "--property", "arch"),
            "expected NAME=VALUE, NAME>=NUMBER or NAME<=NUMBER such as memory>=16, found 'arch'",
        ),
        (("pool", "usage", "--since", "soon"), "expected a duration such as 7d, or a date"),
        (("node", "add", "n1"), "expected HOSTNAME and ADDRESS, or --host HOST"),
        (("node", "add", "n1", "here"), "expected an IP address, found 'here'"),
        (("node", "add", "n1", "192.0.2.1", "--data", "x"), "expected KEY=VALUE such as architecture=x86_64"),
        (("node", "add", "n1", "192.0.2.1", "--data", "x={{ y }}"), "expected plain text without {{, {% and {#"),
    ],
)
def test_malformed_arguments_are_refused_before_zookeeper_is_asked(argv, message):
    done = invoke(*argv, "-z", "127.0.0.1:1")
    assert done.returncode == 2
    assert message in done.stderr


def test_no_terminal_control_characters_of_nodes_are_printed(pools):
    evil = "\x1b[2J\x9b31m\u202eevil\nALL GOOD\r\u2028"
    (number,) = add_ready_nodes(pools.store, 1)
    values = {"hostname": evil, "ipaddr": evil, "comment": evil, "data": {"error": {"detail": evil}}}
    pools.change(number, lambda node: replace(node, state=NodeState.FAILED, **values))
    read = pools.store.read()
    pools.store.commit(PoolChange(filling={"web": FillingRecord(1, 5.0, evil)}), read)
    pools.store.announce(evil)
    for argv in (("node", "list"), ("pool", "show", "web")):
        done = invoke(*argv, "-z", pools.zookeeper)
        assert "\\u202eevil" in done.stdout
        assert all(line.isprintable() and not line.startswith("ALL GOOD") for line in done.stdout.split("\n"))
    (node,) = pools.json("node", "list")["nodes"]
    assert (node["hostname"], node["error"]) == (evil, evil)


def test_a_session_gets_the_keys_in_files_in_place_of_those_of_its_tenant(pools, tmp_path):
    add_ready_nodes(pools.store, 1)
    key = f"ssh-ed25519 {'A' * 68}"
    files = [tmp_path / name for name in ("one.pub", "two.pub")]
    for file in files:
        file.write_text(f"{key} {file.stem}\n")
    options = [option for file in files for option in ("--ssh-key", file)]
    with contextualizing(pools.store):
        pools.run("session", "request", "web=1", "--tenant", "ci", *options)
    (session,) = pools.store.read().sessions.values()
    assert session.ssh_key == f"{key} one\n{key} two"
    files[0].write_text(f'command="id" {key}')
    refused = pools.run("session", "request", "web=1", "--tenant", "ci", *options, status=2)
    assert f"--ssh-key: {files[0]}: expected one line" in refused.stderr


def test_a_request_gets_only_nodes_with_its_properties(pools):
    add_ready_nodes(pools.store, 1, arch="x86_64", memory=8)
    (large,) = add_ready_nodes(pools.store, 1, arch="x86_64", memory=32)
    request = ("session", "request", "web=1", "--tenant", "ci", "--property")
    with contextualizing(pools.store):
        session = pools.json(*request, "arch=x86_64", "--property", "memory>=16")
    assert [node["id"] for node in session["nodes"]] == [large]
    assert session["requested"] == [{"pool": "web", "quantity": 1, "properties": ["arch=x86_64", "memory>=16"]}]
    assert pools.acts() == [f"request session {session['id']} for ci (1 of web with arch=x86_64 and memory>=16)"]
    assert (
        "no node of the pool web has memory>=64; found: 32, 8"
        in pools.run(*request, "memory>=64", status=3).stderr
    )
    assert (
        "no node of the pool web has the property 'colour'" in pools.run(*request, "colour=red", status=3).stderr
    )


def test_a_waiting_request_is_listed_shown_and_cancelled(pools):
    adapters = pool_adapters(pools.session)
    queued = queue_request(pools.users.user("ci"), (NodesSpec("web", 2),), adapters, wait=60, by="ci")
    number, state = queued.id, "waiting: 1st of 1 for pool web; 0 nodes ready of 2 wanted"
    assert state in pools.run("session", "list").stdout
    assert f"request {number} of ci: {state}; for " in pools.run("session", "show", number).stdout
    (listed,) = pools.json("session", "list")["waiting"]
    assert (listed["id"], listed["tenant"], listed["pools"][0]["place"]) == (number, "ci", 1)
    assert f"cancelled request {number}" in pools.run("session", "cancel", number).stdout
    assert "cancelled it" in pools.run("session", "show", number).stdout
    assert pools.json("session", "show", number)["schema"] == "zkdeployment/waiting-request/v1"
    assert f"cancel request {number}" in pools.acts()
    assert pools.json("session", "list")["waiting"] == []


def test_the_verb_shows_the_place_of_a_request_and_ends_with_its_outcome(pools, zookeeper):
    def cancel():
        with Session(zookeeper) as session:
            store = ZooKeeperPools(session)
            wait_until(lambda: store.read().waiting, "the request")
            cancel_request(*store.read().waiting, pool_adapters(session), SessionActor("bob"))

    thread = threading.Thread(target=cancel)
    thread.start()
    done = pools.run("session", "request", "web=2", "--tenant", "ci", "--wait", "1m", status=5)
    thread.join()
    (number,) = pools.store.read().waiting
    assert f"request {number}: waiting: 1st of 1 for pool web; 0 nodes ready of 2 wanted" in done.stderr
    assert f"request {number} ended without a session: bob cancelled it" in done.stderr
    assert "can't wait for nodes: 3 of web requested, but the pool keeps at most 2 ready" in (
        pools.run("session", "request", "web=3", "--tenant", "ci", "--wait", "1m", status=3).stderr
    )
    with TestWorker(pools.zookeeper, SimulatedNodes(), SystemClock()) as worker:
        worker.begin()
        served = pools.run("session", "request", "web=2", "--tenant", "ci", "--wait", "1m")
    assert served.stdout.startswith("session ")


def test_a_tenant_gets_nodes_and_the_operator_sees_how_to_reach_extend_and_end_them(pools):
    first, second = add_ready_nodes(pools.store, 2)
    with contextualizing(pools.store):
        done = pools.run("session", "request", "web=2", "--tenant", "ci", "--reason", "a release")
    lines = done.stdout.splitlines()
    number = int(lines[0].split()[1])
    assert lines[0].startswith(f"session {number} of ci, until ")
    assert lines[0].endswith("(in 5 h 59 min)")
    assert lines[1] == f"  ssh root@192.0.2.{first}  # node {first}, web, node{first}.example.com: deployed"
    assert lines[3:] == [
        f"extend: zkdeployment session extend {number} --by 1h",
        f"retire: zkdeployment session retire {number}",
    ]
    prepared = f"session {number}: a worker prepares node{first}.example.com, node{second}.example.com"
    assert done.stderr in {"", f"{prepared}\n"}

    begun = pools.json("session", "show", number)
    assert begun["schema"] == "zkdeployment/session/v1"
    assert [node["ssh"] for node in begun["nodes"]] == [f"ssh root@192.0.2.{one}" for one in (first, second)]
    later = pools.json("session", "extend", number, "--by", "2h")
    assert later["expires_at"] == begun["expires_at"] + 7200
    assert pools.json("session", "extend", number, "--by", "-30m")["expires_at"] == begun["expires_at"] + 5400
    assert pools.json("session", "extend", number, "--until", "2100-01-01T00:00+00:00")["expires_at"] == 4102444800
    listed = pools.json("session", "list", "--tenant", "ci")["sessions"]
    assert [(found["id"], found["tenant"]) for found in listed] == [(number, "ci")]
    assert f"{number}   ci       2 of web" in pools.run("session", "list").stdout
    assert "can't reserve nodes: 1 of web requested, 0 ready" in (
        pools.run("session", "request", "web=1", "--tenant", "ci", status=3).stderr
    )
    assert "there is no pool 'wbe'; the pools are: attic, web" in (
        pools.run("session", "request", "wbe=1", "--tenant", "ci", status=3).stderr
    )

    ended = pools.run("session", "retire", number).stdout
    assert f"session {number} of ci ended" in ended
    assert f"# node {first}, web, node{first}.example.com: left the session (192.0.2.{first})" in ended
    assert "ssh root@" not in ended
    assert "retired by ann@" in ended
    assert f"session {number} is retired" in pools.run("session", "extend", number, "--by", "1h", status=3).stderr
    assert pools.json("session", "list")["sessions"] == []
    history = pools.json("session", "history", "--node", f"node{second}.example.com", "--since", "1d")
    assert history["schema"] == "zkdeployment/session-history/v1"
    (lease,) = history["leases"]
    assert (lease["node"], lease["session"], lease["tenant"]) == (second, number, "ci")
    assert lease["retired_by"].startswith("ann@")
    assert lease["begin"] < lease["end"]
    assert pools.json("session", "history", "--tenant", "web")["leases"] == []
    assert f"node{first}.example.com" in pools.run("session", "history").stdout
    usage = pools.json("pool", "usage", "--since", "1d")
    assert (usage["schema"], usage["step"]) == ("zkdeployment/pool-usage/v1", 3600)
    (row,) = usage["usage"]
    assert (row["tenant"], row["pool"], row["sessions"], row["most_nodes"]) == ("ci", "web", 1, 2)
    assert (row["begun"], row["longest_wait"]) == (1, row["median_wait"])
    assert 0 <= row["longest_wait"] < 60
    assert len(row["held"]) == 25
    assert sum(row["held"][-2:]) > 0
    assert pools.json("pool", "usage", "--tenant", "web")["usage"] == []
    assert re.search(r"ci +web +1 +0\.0 +2 +\d+ s", pools.run("pool", "usage", "--pool", "web").stdout)
    assert "no tenant held a node since" in pools.run("pool", "usage", "--pool", "attic").stderr
    assert pools.acts() == [
        f"request session {number} for ci (2 of web)",
        *[f"change the end of session {number}"] * 3,
        f"retire session {number}",
    ]


def test_nodes_that_cannot_be_prepared_end_a_request_with_their_names(pools):
    (number,) = add_ready_nodes(pools.store, 1)
    with contextualizing(pools.store, failing=[number]):
        done = pools.run("session", "request", "web=1", "--tenant", "ci", status=1)
    assert f"contextualization of nodes failed: node{number}.example.com" in done.stderr
    listed = pools.run("node", "list", "--state", "failed").stdout
    assert "a test" in listed


def test_nodes_are_added_drained_forgiven_and_retired(pools):
    added = pools.json(
        "node", "add", "m1", "192.0.2.9", "--data", "cpus=4", "--data", 'slot="2"', "--comment", "a new one"
    )
    number = added["id"]
    assert (added["schema"], added["state"], added["comment"]) == (
        "zkdeployment/pool-node/v1",
        "unused",
        "a new one",
    )
    assert "a new one" in pools.run("node", "list").stdout
    assert pools.store.node(number).data == {"cpus": 4, "slot": "2"}
    assert f"node {number} (unused) has the name m1" in (
        pools.run("node", "add", "m1", "192.0.2.8", status=3).stderr
    )
    assert "there is no host h7" in pools.run("node", "add", "--host", "h7", status=3).stderr
    assert pools.run("node", "drain", number, "--reason", "old").stdout == f"node {number} is done\n"
    assert f"node {number}: it is done already" in pools.run("node", "drain", number, status=3).stderr

    ready, failed = add_ready_nodes(pools.store, 2)
    assert f"'zkdeployment node drain {ready}' takes it out" in pools.run("node", "retire", ready, status=3).stderr
    assert "is being deprovisioned, and done after that" in pools.run("node", "drain", ready).stdout
    pools.change(failed, lambda node: node.after(NodeEvent.RELEASED, 5))
    pools.change(failed, lambda node: fail(node, "the switch is off", 6))
    shown = pools.json("pool", "show", "web")
    assert [node["error"] for node in shown["nodes"]] == [None, "the switch is off"]
    assert "found it deprovisioning" in pools.run("node", "forgive", ready, status=3).stderr
    assert pools.json("node", "forgive", failed)["state"] == "deprovisioning"
    pools.change(failed, lambda node: fail(node, "again", 7))
    assert pools.run("node", "retire", failed).stdout == f"node {failed} is done\n"
    assert [node["id"] for node in pools.json("node", "list")["nodes"]] == [ready]
    assert pools.acts() == [
        "add node m1",
        f"drain node {number}",
        f"drain node {ready}",
        f"forgive node {failed}",
        f"retire node {failed}",
    ]


@pytest.fixture
def machines():
    return SimulatedNodes()


@pytest.fixture
def worker(pools, machines):
    with TestWorker(pools.zookeeper, machines, SystemClock()) as running:
        yield running


def test_a_pool_is_filled_at_once_and_shows_how(pools, worker, machines):
    machines.machines[add_ready_nodes(pools.store, 1)[0]] = None
    failed = FillingRecord(3, time.time(), "the switch is off", pools.store.configuration().pools["web"].values)
    pools.store.commit(PoolChange(filling={"web": failed}), pools.store.read())
    listed = pools.run("pool", "list")
    assert "no worker of the pools runs" in listed.stdout
    assert "start 'zkdeployment pools'" in listed.stderr
    assert pools.json("pool", "list")["workers"] == []
    fleet = read_fleet(Servers(pools.zookeeper), timeout=60)
    verdict = fleet_health(fleet, now=time.time(), limits=HealthLimits(Range("15"), Range("30")))
    assert "no worker of the pools runs; below their levels: web" in verdict.line

    worker.begin()
    wait_until(lambda: pools.store.read().workers == ("w1",), "the worker")
    listed = pools.run("pool", "list")
    assert re.search(
        r"1 node for \d+ s: filling failed 3 times in a row: the switch is off; the next attempt is in 4 min",
        listed.stdout,
    )
    assert listed.stderr == ""
    done = pools.run("pool", "fill", "web", "--reason", "the switch is on")
    assert done.stdout == "web: 2 of 2 ready\n"
    level = pools.json("pool", "fill", "web")
    assert (level["schema"], level["ready"], level["shortage"]) == ("zkdeployment/pool-level/v1", 2, None)
    assert "pool attic has no fill-level" in pools.run("pool", "fill", "attic", status=3).stderr
    assert pools.acts() == ["fill pool web", "fill pool web"]
    assert "web (ansible): level 2; 2 ready" in pools.run("pool", "show", "web").stdout

    begun = pools.json("session", "request", "web=2", "--tenant", "ci")
    assert [node["state"] for node in begun["nodes"]] == ["deployed", "deployed"]
    pools.run("session", "retire", begun["id"])
    wait_until(lambda: pools.states() == {"ready", "unused"}, "clean nodes and a full pool")


def test_a_pool_that_cannot_be_filled_shows_the_reason(pools, worker, machines):
    machines.failing |= {*range(100)}
    machines.working.clear()
    worker.begin()
    wait_until(lambda: len(pools.store.read().claimed) == 2, "the beginning of work")
    late = pools.run("pool", "fill", "web", "--timeout", "0", status=5)
    assert "web: 0 of 2 ready, 2 being provisioned\n" in late.stderr
    assert "pool web is not full after 0 s: 2 nodes are being provisioned" in late.stderr
    machines.working.set()
    done = pools.run("pool", "fill", "web", status=1)
    assert re.search(r"pool web is not filled; it lacks 2 nodes for \d+ s: filling failed once: ", done.stderr)
    assert "; the next attempt is in " in done.stderr


def test_the_output_of_playbooks_is_shown_for_each_node(zookeeper):
    with Session(zookeeper) as session:
        store, log = ZooKeeperPools(session), ZooKeeperPlaybookLog(session)
        nodes = add_ready_nodes(store, 2)
        for output, succeeded, numbers in (("one\x1b[2J", False, (1, 2)), ("two\nlines", True, (1,))):
            run = PlaybookRun(0, "web", "provision.yml", numbers, 1e9, 3.2, succeeded, output)
            log.add(run, lambda: store.take_ids(1)[0])
        session.commit(Create("/zkdeployment/pools/runs/99", b"damaged"))
    shown = invoke("node", "log", "1", "--zookeeper", zookeeper)
    assert (shown.returncode, nodes) == (0, [1, 2])
    assert "provision.yml for the pool web failed after 3 s\n  one\\x1b[2J\n" in shown.stdout
    assert shown.stdout.endswith("succeeded after 3 s\n  two\n  lines\n")
    machine = json.loads(invoke("node", "log", "2", "-o", "json", "--zookeeper", zookeeper).stdout)
    assert (machine["schema"], [run["succeeded"] for run in machine["runs"]]) == (
        "zkdeployment/node-log/v1",
        [False],
    )
    assert invoke("node", "log", "7", "--zookeeper", zookeeper).returncode == 3


def test_only_the_last_runs_are_kept(zookeeper, monkeypatch):
    monkeypatch.setattr(pool_store, "_KEPT", 2)
    with Session(zookeeper) as session:
        log = ZooKeeperPlaybookLog(session)
        for number in range(1, 5):
            output = "x" * 30_000
            log.add(PlaybookRun(0, "web", "p.yml", (7,), 1e9, 1.0, True, output), lambda number=number: number)
        assert [(run.id, len(run.output)) for run in log.runs(7)] == [(3, 20_000), (4, 20_000)]
        assert log.runs(8) == []

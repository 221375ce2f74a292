"""The verb status on a real ZooKeeper."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest
import yaml

from support.builders import make_known_host
from support.waiting import wait_until
from support.zookeeper import write_node
from zkdeployment.base.inventory import Inventory
from zkdeployment.cli.verbs import status
from zkdeployment.fleet.views.waits import WaitVerdict, wait_verdict
from zkdeployment.programs.main import main
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session


@pytest.fixture
def run(zookeeper, capsys):
    def call(*argv: str):
        with pytest.raises(SystemExit) as end:
            main(["status", "-z", zookeeper, *argv])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def fleet(client):
    """Two hosts that converged to r1, the published revision."""
    client.create("/hosts", b'{"version": "r1"}')
    client.create("/zkdeployment/targets", b'{"version": "r1"}', makepath=True)
    for host in ("h1", "h2"):
        properties = {"name": f"{host}.example.com", "version": "r1"}
        write_node(client, f"/hosts/{host}", properties, ephemeral=True)
    return client


@pytest.mark.usefixtures("fleet")
def test_a_converged_fleet_is_shown_and_exits_with_0(run):
    code, out, err = run()
    assert code == 0
    assert "h1.example.com" in out
    assert "2 hosts: 2 converged at r1" in out
    assert err == ""


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_machine_readable_output_has_each_hosts_state_and_time(run, fleet, output, read):
    fleet.set("/hosts/h2", b'{"name": "h2.example.com", "version": "r0", "role": "web"}')
    code, out, _ = run("-o", output)
    document = read(out)
    assert code == 4
    assert document["wanted"] == "r1"
    assert not document["converged"]
    assert [(host["id"], host["state"], host["version"]) for host in document["hosts"]] == [
        ("h1", "converged", "r1"),
        ("h2", "behind", "r0"),
    ]
    assert document["hosts"][1]["since"] == pytest.approx(fleet.get("/hosts/h2")[1].mtime / 1000)


def test_the_wanted_revision_is_shown_with_its_commit_and_since_when_it_is_wanted(run, fleet):
    record = {"revision": "r1", "sequence": 7, "time": time.time() - 90, "subject": "Web 1.3"}
    record |= {"author": "Jane Doe <jane@example.com>", "committed": 5.0}
    write_node(fleet, "/zkdeployment/history/0000000007", record)
    fleet.set("/zkdeployment/targets", b'{"version": "r1", "sequence": 7}')
    _, out, _ = run()
    document = json.loads(run("-o", "json")[1])
    assert re.search(r'^r1 "Web 1.3" by Jane Doe, published 1 min ago; wanted \d+ s ago$', out, re.MULTILINE)
    assert (document["publication"]["subject"], document["publication"]["sequence"]) == ("Web 1.3", 7)
    assert document["since"] == pytest.approx(fleet.get("/hosts")[1].mtime / 1000)


def test_a_dead_host_keeps_its_version_and_shows_since_when_a_syncer_misses_it(run, fleet, zookeeper):
    write_node(fleet, "/zkdeployment/history/0000000007", {"revision": "r1", "sequence": 7})
    fleet.set("/zkdeployment/targets", b'{"version": "r1", "sequence": 7}')
    write_node(fleet, "/zkdeployment/targets/h2", {})

    def shown():
        code, out, _ = run("-o", "json")
        ours = json.loads(out)["hosts"][1]
        return code, ours["state"], ours["version"], ours["since"]

    with Session(zookeeper) as session:
        syncer = ZooKeeperPublications(session)
        for host in ("h1", "h2"):
            write_inventory(session, make_known_host(host, Inventory(), time=5.0, completed=7))
        syncer.report("up to date", 60, 1.0)
        fleet.delete("/hosts/h2")
        assert shown() == (4, "absent", "r1", None)
        before = time.time()
        syncer.report("up to date", 60, 1.0)
        code, state, version, since = shown()
        assert (code, state, version) == (4, "absent", "r1")
        assert before <= since <= time.time()
        syncer.report("up to date", 60, 1.0)
        assert shown()[-1] == since
        assert run("--wait", "r1", "--timeout", "0")[0] == 5
        write_node(fleet, "/hosts/h2", {"name": "h2", "version": "r1"}, ephemeral=True)
        assert shown()[1] == "converged"
        syncer.report("up to date", 60, 1.0)
        fleet.delete("/hosts/h2")
        assert shown() == (4, "absent", "r1", None)


@pytest.mark.usefixtures("fleet")
def test_a_host_that_exists_nowhere_is_unknown_not_fine(run):
    code, out, _ = run("h1", "h3")
    assert code == 4
    assert "no such host" in out
    assert run("h1")[0] == 0


def test_status_of_a_stopped_fleet_shows_where_and_why_a_host_failed(run, fleet):
    fleet.set("/hosts", b'{"version": null}')
    write_node(
        fleet,
        "/zkdeployment/stops/h2",
        {
            "host": "h2",
            "name": "h2.example.com",
            "revision": "r1",
            "step": "deploy /web 0",
            "reason": "it broke",
        },
    )
    fleet.set("/hosts/h2", b'{"name": "h2.example.com", "error": "it broke"}')
    code, out, _ = run()
    assert code == 4
    assert "h2.example.com (h2) failed at deploy /web 0 of r1: it broke" in out
    assert "ALL STOP; 2 hosts: 1 converged at r1, 1 failed; running services continue" in out
    assert run("--wait", "r2")[0] == 3
    assert run("--wait")[0] == 3
    fleet.set("/hosts/h2", b'{"name": "h2.example.com", "version": "r1"}')
    code, out, _ = run()
    assert code == 4
    assert "h2.example.com (h2) is repaired: it failed at deploy /web 0 of r1: it broke" in out
    assert run("h2", "--wait")[0] == 0
    assert run("--wait", "--timeout", "1")[0] == 5


def test_waiting_ends_when_the_last_host_has_reached_the_revision(run, fleet, monkeypatch):
    verdicts = []
    monkeypatch.setattr(
        status, "wait_verdict", lambda *arguments: verdicts.append(wait_verdict(*arguments)) or verdicts[-1]
    )
    fleet.set("/hosts", b'{"version": "r2"}')
    fleet.set("/hosts/h1", b'{"name": "h1.example.com", "version": "r2"}')
    ends = []
    waiting = threading.Thread(target=lambda: ends.append(run("--wait", "--timeout", "60")))
    waiting.start()
    wait_until(lambda: WaitVerdict.WAITING in verdicts, "it waits")
    fleet.set("/hosts/h2", b'{"name": "h2.example.com", "version": "r2"}')
    waiting.join()
    assert [code for code, _, _ in ends] == [0]


def test_waiting_for_one_host_does_not_wait_for_the_others(run, fleet):
    fleet.set("/hosts", b'{"version": "r2"}')
    fleet.set("/hosts/h1", b'{"name": "h1.example.com", "version": "r2"}')
    assert run("h1", "--wait", "r2", "--timeout", "60")[0] == 0
    code, out, err = run("--wait", "r2", "--timeout", "0")
    assert err == "timed out: r2 was not reached in 0 s\n"
    assert code == 5
    assert "1 behind" in out


@pytest.mark.parametrize(
    ("done", "code", "message"), [(2, 0, ""), (1, 3, "r2 was published before the hosts reached r1\n")]
)
def test_a_wait_for_a_former_revision_ends_at_once(run, fleet, done, code, message):
    results = [{"id": f"h{number}", "name": "", "time": 1.0, "seconds": 1.0} for number in (1, 2)][:done]
    former = {"revision": "r1", "sequence": 1, "hosts": 2, "results": results}
    write_node(fleet, "/zkdeployment/history/0000000001", former)
    write_node(fleet, "/zkdeployment/history/0000000002", {"revision": "r2", "sequence": 2, "hosts": 2})
    fleet.set("/zkdeployment/targets", b'{"version": "r2", "sequence": 2}')
    fleet.set("/hosts", b'{"version": "r2"}')
    for name in ("h1", "h2"):
        fleet.set(f"/hosts/{name}", b'{"version": "r2"}')
    found = run("--wait", "r1", "--timeout", "60")
    assert (found[0], found[2]) == (code, message)


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("host", ["h1", "h1.example.com"])
def test_a_host_name_given_as_a_revision_to_wait_for_is_refused(run, host):
    code, _, err = run("--wait", host)
    assert code == 2
    assert f"expected a revision after --wait, found the host {host}; put hosts first: status {host} --wait" in err


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("name", ["r1", "r0", "4" * 40])
@pytest.mark.parametrize("options", [(), ("--wait",), ("--wait", "r1")])
def test_a_revision_given_as_a_host_is_refused(run, fleet, name, options):
    fleet.create("/zkdeployment/history/0000000001", b'{"sequence": 1, "revision": "r0"}', makepath=True)
    code, _, err = run(name, *options)
    assert code == 2
    assert f"found the revision {name}; to wait for a revision, name it after --wait: status --wait {name}" in err


@pytest.mark.usefixtures("fleet")
def test_a_wait_for_a_host_that_exists_nowhere_is_reported(run):
    code, _, err = run("h9", "--wait", "r1", "--timeout", "0")
    assert code == 5
    assert err.splitlines()[0] == "no such host: h9; waiting until a host with this id or name registers"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--watch", "--wait"], "expected --watch or --wait, found both"),
        (["--watch", "-o", "json"], "expected a table with --watch"),
        (["--timeout", "5"], "expected --wait or --watch with --timeout"),
        (["--wait", ""], "expected a revision after --wait, found nothing"),
        (["--wait="], "expected a revision after --wait, found nothing"),
    ],
)
def test_options_without_effect_or_value_are_refused(run, argv, problem):
    code, _, err = run(*argv)
    assert code == 2
    assert problem in err


def test_a_fleet_without_a_publication_and_hosts_is_not_converged(run):
    code, out, _ = run()
    assert code == 4
    assert "there is no /hosts" in out


def test_an_unreachable_zookeeper_is_reported_in_one_line(capsys):
    with pytest.raises(SystemExit) as end:
        main(["status", "-z", "127.0.0.1:1"])
    assert end.value.code == 7
    assert capsys.readouterr().err.splitlines() == [
        "zkdeployment: ZooKeeper cannot be reached at 127.0.0.1:1: Connection refused"
    ]


@pytest.mark.usefixtures("fleet")
def test_waiting_without_a_revision_names_the_awaited_revision(run, monkeypatch):
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)  # outputs have ages
    code, _, err = run("--wait")
    assert code == 0
    assert err == (
        "waiting for r1, as published; to wait for a push that is not published yet, name its revision\n"
    )
    assert run("--wait", "r1") == (0, run("--wait")[1], "")


def test_a_host_that_leaves_while_the_fleet_is_read_is_absent(run, fleet, monkeypatch):
    write_node(fleet, "/zkdeployment/inventory/h2", {"name": "h2.example.com"})
    look = Session.look

    def look_and_lose_a_host(session, nodes, children):
        found = look(session, nodes, children)
        if "/hosts" in children and fleet.exists("/hosts/h2"):
            fleet.delete("/hosts/h2")
        return found

    monkeypatch.setattr(Session, "look", look_and_lose_a_host)
    _, out, _ = run("-o", "json")
    assert {host["id"]: host["state"] for host in json.loads(out)["hosts"]} == {"h1": "converged", "h2": "absent"}


def test_a_wait_without_a_revision_begins_with_the_first_publication(run, fleet):
    fleet.set("/hosts", b'{"version": "initial"}')
    for name in fleet.get_children("/hosts"):
        fleet.set(f"/hosts/{name}", b'{"version": "initial"}')
    code, _, err = run("--wait", "--timeout", "0")
    assert code == 5
    assert err.splitlines() == [
        "waiting for the first publication; to wait for a push that is not published yet, name its revision",
        "timed out: a published revision was not reached in 0 s",
    ]


def test_a_wait_that_times_out_names_the_revision(run, fleet):
    fleet.set("/hosts", b'{"version": "r2"}')
    code, _, err = run("--wait", "--timeout", "0")
    assert code == 5
    assert err.splitlines()[-1] == "timed out: r2 was not reached in 0 s"


def test_a_silent_syncer_is_shown_last_and_the_exit_code_is_4(run, fleet, monkeypatch):
    write_node(fleet, "/zkdeployment/syncer", {"by": "syncer on s1", "said": "done", "interval": 1.0})
    assert run()[0] == 0
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 100)
    code, out, _ = run()
    assert code == 4
    assert re.search(r"the syncer is silent since .*; newer commits may wait\s*$", " ".join(out.split()))
    assert run("h1")[0] == 0
    code, out, err = run("--wait", "deadbeef", "--timeout", "0.1")
    assert (code, "deadbeef was not reached" in err, "newer commits may wait" in out) == (5, True, True)


@pytest.mark.usefixtures("fleet")
def test_a_wait_for_a_commit_that_no_syncer_knows_names_the_known_ones_at_once(run):
    code, _, err = run("--wait", "deadbeef", "--timeout", "0")
    assert code == 5
    assert err.splitlines()[0] == (
        "waiting until deadbeef is pushed and the syncer reads it: no syncer has reported; no such revision is"
        " published, refused or waits in the branch (r1); a later revision that contains it may be"
        " published instead"
    )
    assert "no such revision" not in run("--wait", "r1")[2]


def test_a_wait_for_a_commit_that_waits_in_the_branch_names_no_mistake(run, fleet):
    waiting = [{"revision": "a" * 40, "author": "ann", "subject": "web 1.3", "time": 1.0}]
    report = {"by": "syncer on s1", "said": "done", "interval": 60.0, "waiting": waiting}
    write_node(fleet, "/zkdeployment/syncer", report)
    assert "no such revision" not in run("--wait", "a" * 8, "--timeout", "0")[2]
    err = run("--wait", "b" * 8, "--timeout", "0")[2]
    assert "no such revision is published" in err
    assert f"({'a' * 12}, r1)" in err

"""The commands locks and why on a real ZooKeeper."""

from __future__ import annotations

import json

import pytest
import yaml

from support.zookeeper import write_node
from zkdeployment.agent.files.run_directory import JoinedRoles
from zkdeployment.agent.store.role_locks import RoleRequests
from zkdeployment.agent.store.service_locks import LockDelay, ZooKeeperServiceLock
from zkdeployment.base.errors import LockLostError
from zkdeployment.base.host import Identity
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.programs.main import main
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.session import Session

H1, H2 = Identity("h1", "h1.example.com"), Identity("h2", "h2.example.com")


@pytest.fixture
def run(zookeeper, capsys):
    def call(*argv: str):
        with pytest.raises(SystemExit) as end:
            main([*argv, "-z", zookeeper])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return call


@pytest.fixture
def hosts(zookeeper, client):
    """Yield sessions of two registered hosts that deploy r2; the lock node of the role web exists."""
    client.create("/hosts", b'{"version": "r2"}')
    client.create("/role-locks/web", makepath=True)
    client.create("/zkdeployment/busy", makepath=True)
    client.create("/agent-locks")
    with Session(zookeeper) as one, Session(zookeeper) as two:
        for host in (H1, H2):
            properties = {"name": host.name, "version": "r1", "deploying": "r2"}
            write_node(client, f"/hosts/{host.id}", properties, ephemeral=True)
        yield one, two


def lock_of(session, identity):
    return ZooKeeperServiceLock(session, "shop,web", identity, LockDelay(60))


def test_locks_without_a_held_lock_reports_that_no_lock_is_held(run):
    assert run("locks") == (0, "no lock is held\n", "")
    assert json.loads(run("locks", "-o", "json")[1]) == {"schema": "zkdeployment/locks/v1", "locks": []}


def test_locks_shows_the_holder_the_waiting_hosts_and_the_current_step(run, hosts, client):
    mine, other = lock_of(hosts[0], H1), lock_of(hosts[1], H2)
    assert mine.try_acquire()
    mine.begin("deploy /shop/web 0")
    assert not other.acquire(0)
    assert RoleRequests(hosts[0], JoinedRoles()).lock("web", Identity("h9", "h9.example.com")).acquire(0)
    syncer = ContenderLock(hosts[0], "/hosts-lock", "syncer on s1 (process 7)")
    assert syncer.try_acquire()
    client.create("/agent-locks/empty")

    code, out, _ = run("locks")
    assert code == 0
    lines = [line for line in out.splitlines() if line.strip()]
    assert lines[0].split() == ["LOCK", "HOLDER", "FOR", "AT", "WORK", "WAITING"]
    assert "role web" in lines[2]
    assert "h9.example.com (h9) not registered" in lines[2]
    assert "deploy /shop/web 0" in out
    assert "h2.example.com (h2) " in out
    assert "syncer on s1 (process 7)" in out
    assert "empty" not in out

    locks = {lock["name"]: lock for lock in yaml.safe_load(run("locks", "-o", "yaml")[1])["locks"]}
    assert locks.keys() == {"/shop/web", "web", "/hosts-lock"}
    assert locks["/shop/web"]["work"]["step"] == "deploy /shop/web 0"
    assert [contender["host"] for contender in locks["/shop/web"]["waiting"]] == ["h2"]
    assert locks["web"]["holder"]["registered"] is False


def test_a_role_lock_of_an_absent_host_is_released_and_the_release_is_recorded(run, hosts, zookeeper):
    assert RoleRequests(hosts[0], JoinedRoles()).lock("web", Identity("h9", "h9.example.com")).acquire(0)
    waiting = RoleRequests(hosts[1], JoinedRoles()).lock("web", H2)
    assert not waiting.acquire(0)
    code, out, _ = run("locks", "release", "web", "--reason", "it burnt down", "--yes")
    assert (code, out) == (0, "released the lock of role web, from h9.example.com (h9)\n")
    assert waiting.acquire(60)
    with Session(zookeeper) as session:
        (act,) = read_acts(session)
    assert act.what == "release the lock of role web, from h9.example.com (h9)"
    assert act.reason == "it burnt down"


def test_a_working_holder_loses_its_lock_only_by_force_and_notices_the_loss(run, hosts):
    mine = lock_of(hosts[0], H1)
    assert mine.try_acquire()
    mine.begin("deploy /shop/web 0")
    code, _, err = run("locks", "release", "/shop/web", "--reason", "x", "--yes")
    assert code == 3
    assert "h1.example.com (h1) has worked under the lock for" in err
    mine.check()
    assert run("locks", "release", "/shop/web", "--reason", "x", "--yes", "--force")[0] == 0
    with pytest.raises(LockLostError):
        mine.check()
    # The script of h1 may still run: the next host waits.
    assert not lock_of(hosts[1], H2).try_acquire()
    mine.release()
    assert lock_of(hosts[1], H2).try_acquire()


def test_the_work_record_of_an_absent_host_is_released_before_the_lock_delay_is_over(
    run, hosts, zookeeper, client
):
    with Session(zookeeper) as dying:
        mine = lock_of(dying, H1)
        assert mine.try_acquire()
        mine.begin("deploy /shop/web 0")
    client.delete("/hosts/h1")
    waiting = lock_of(hosts[1], H2)
    assert not waiting.acquire(0)
    assert "lost the lock of /shop/web in the middle of a script" in run("why", "h2")[1]
    code, out, _ = run("locks", "release", "/shop/web", "--reason", "looked: no script runs", "--yes")
    assert code == 0
    assert "the record of h1.example.com (h1) at deploy /shop/web 0" in out
    assert waiting.acquire(60)


def test_a_lock_that_is_kept_for_a_host_is_shown_explained_and_released_with_a_reason(
    run, hosts, zookeeper, client
):
    with Session(zookeeper) as ended:
        mine = lock_of(ended, H1)
        assert mine.try_acquire()
        mine.begin("deploy /shop/web 0")
        mine.keep()
    client.delete("/agent-locks/shop,web")
    assert "deploy /shop/web 0, kept for the holder" in run("locks")[1]
    waiting = lock_of(hosts[1], H2)
    assert not waiting.acquire(0)
    assert "the lock is kept for the holder, which has not completed deploy /shop/web 0" in run("why", "h2")[1]
    code, _, err = run("locks", "release", "/shop/web", "--reason", "x", "--yes")
    assert (code, "h1.example.com (h1) is registered and deploying r2" in err) == (3, True)
    client.delete("/hosts/h1")
    assert "h1.example.com (h1) not registered" in run("locks")[1]
    assert "zkdeployment locks release /shop/web --reason TEXT" in run("why", "h2")[1]
    code, out, _ = run("locks", "release", "/shop/web", "--reason", "h1 burnt down", "--yes")
    assert (code, out) == (0, "released the lock of /shop/web, from h1.example.com (h1)\n")
    assert waiting.acquire(60)


def test_a_release_without_a_terminal_asks_no_question(run, hosts):
    mine = lock_of(hosts[0], H1)
    assert mine.try_acquire()
    assert run("locks", "release", "/shop/web", "--reason", "x")[0] == 0
    with pytest.raises(LockLostError):
        mine.check()


def test_a_release_at_a_terminal_asks_for_the_name_of_the_lock(run, hosts, monkeypatch):
    mine = lock_of(hosts[0], H1)
    assert mine.try_acquire()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "web")
    assert run("locks", "release", "/shop/web", "--reason", "x")[0] == 130
    mine.check()
    monkeypatch.setattr("click.prompt", lambda *_, **__: "/shop/web")
    assert run("locks", "release", "/shop/web", "--reason", "x")[0] == 0
    with pytest.raises(LockLostError):
        mine.check()


@pytest.mark.usefixtures("hosts")
def test_a_lock_without_contenders_is_not_released(run):
    code, _, err = run("locks", "release", "/nothing", "--reason", "x", "--yes")
    assert code == 3
    assert "there is no lock '/nothing'" in err


def test_why_names_the_holder_its_step_and_the_next_command(run, hosts):
    mine, other = lock_of(hosts[0], H1), lock_of(hosts[1], H2)
    assert mine.try_acquire()
    mine.begin("deploy /shop/web 0")
    assert not other.acquire(0)
    code, out, err = run("why", "h2.example.com")
    assert (code, err) == (0, "")
    first, *rest = out.splitlines()
    assert first.startswith(
        "h2.example.com (h2) waits for the lock of /shop/web, which h1.example.com (h1) has held for "
    )
    assert any("the holder is at deploy /shop/web 0" in line for line in rest)
    assert rest[-1] == "To do: 'zkdeployment why h1' shows what the holder is doing"
    document = json.loads(run("why", "h2", "-o", "json")[1])
    assert (document["schema"], document["cause"], document["answer"]) == ("zkdeployment/why/v1", "lock", first)


def test_why_of_an_unknown_host_exits_with_3(run):
    code, out, _ = run("why", "nobody")
    assert code == 3
    assert "There is no host nobody" in out

"""The agent as a process: signals, crashes, exit codes, lost connections."""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

import zkdeployment
from support.agents import SCRIPT, AgentHost, Fleet, called, put_script, wait_for_versions
from support.hosts.systemd import heard
from support.proxy import Proxy
from support.waiting import wait_until
from support.web.servers import web_server
from support.zookeeper import through
from zkdeployment.base.errors import RefusedError
from zkdeployment.config.settings import load
from zkdeployment.programs.agent import build_agent
from zkdeployment.sandbox.zookeeper import free_port

FOO_0 = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host with the installed software foo and two wanted deployments of it."""
    return fleet.ready_host(n=2)


def test_after_sigterm_the_current_step_ends_and_no_further_step_starts(fleet, host):
    block = host.block()
    with host.process() as agent:
        wait_until(fleet.calls, "the first script")
        agent.send_signal(signal.SIGTERM)
        wait_until(lambda: agent.poll() is None and fleet.get("/hosts/h1"), "still there")
        block.unlink()
        assert agent.wait() == 0
    assert fleet.calls() == FOO_0
    assert host.markers == ["who:myfoo.0.deployed"]
    assert fleet.get("/hosts/h1") == {}
    assert fleet.version == "r1"
    assert fleet.client.get_children("/agent-locks/who,myfoo") == []


def test_the_successor_of_a_killed_agent_waits_for_its_script_and_reports_to_systemd_that_it_is_up(
    fleet, host, tmp_path, monkeypatch
):
    block = host.block()
    with host.process() as agent:
        wait_until(fleet.calls, "the first script")
        script = wait_for_script(host)
        agent.kill()
        agent.wait()
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with heard(tmp_path / "notify") as messages, host.process():
        wait_until(lambda: fleet.get("/hosts/h1"), "the host's node is taken over")
        wait_until(lambda: "orphaned-script-awaited" in host.log.read_text(), "it waits")
        wait_until(lambda: "READY=1" in messages, "it is up")
        assert script.is_running()
        assert fleet.calls() == FOO_0[:1]
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, *FOO_0, "h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]


def test_an_agent_waits_until_the_server_that_knows_its_role_works(fleet, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    answers = {"/role": (503, b"")}
    with web_server(answers) as url, heard(tmp_path / "notify") as messages:
        host = fleet.host("h2", role=f"{url}/role")
        with host.process() as agent:
            wait_until(lambda: "READY=1" in messages, "it is up")
            wait_until(lambda: "configuration-awaited" in host.log.read_text(), "it waits")
            assert "expected status 200 or 404" in host.log.read_text()
            answers["/role"] = (200, b"web")
            agent.send_signal(signal.SIGHUP)
            wait_until(lambda: fleet.get("/hosts/h2").get("role") == "web", "it registers with its role")


def test_a_killed_agents_node_is_taken_over_immediately_by_its_successor(fleet, host):
    with host.process() as agent:
        host.wait_for_version("r1")
        agent.kill()
        agent.wait()
        owner = fleet.client.exists("/hosts/h1").ephemeralOwner
        assert json.loads((host.run / "session").read_text())["id"] == owner, "its successor knows whose it is"
    with host.process() as agent:
        wait_until(lambda: fleet.get("/hosts/h1").get("pid") == agent.pid, "taken over")


@pytest.fixture
def pair(fleet: Fleet, request: pytest.FixtureRequest) -> tuple[AgentHost, AgentHost]:
    """Two hosts of one service with installed software; the fixture's parameter is their lock delay."""
    hosts = tuple(fleet.host(name, lock_delay=getattr(request, "param", "60")) for name in ("h1", "h2"))
    for host in hosts:
        put_script(host.root, "foo")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    return hosts


def kill_during_script(host: AgentHost) -> Path:
    """Kill the agent of a host while its script runs; the script ends when the returned file is removed.

    The session of the agent remains.
    """
    block = host.block()
    with host.process() as agent:
        wait_until(host.fleet.calls, f"the script of {host.id}")
        wait_for_script(host)
        agent.kill()
        agent.wait()
    return block


@pytest.mark.parametrize("pair", ["3"], indirect=True)
def test_a_host_waits_for_the_lock_delay_of_a_host_that_was_killed_during_work(fleet, pair):
    first, second = pair
    block = kill_during_script(first)
    first.end_session()
    with second.process():
        waiting = "h1.example.com (h1) at deploy /who/myfoo 0 whose session has ended (lock delay: "
        wait_until(lambda: waiting in second.log.read_text(), "h2 waits for h1")
        assert "lock-delay-started" in second.log.read_text()
        assert fleet.calls() == FOO_0[:1]
        second.wait_for_version("r1")
        assert fleet.calls()[1:] == ["h2 start /who/myfoo 0", "h2 end /who/myfoo 0"]
        block.unlink()
        with first.process():
            first.wait_for_version("r1")
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_waiting_host_continues_as_soon_as_the_killed_host_is_back_and_its_script_has_ended(fleet, pair):
    first, second = pair
    block = kill_during_script(first)
    with second.process():
        wait_until(lambda: "wait for the lock" in second.status, "h2 waits")
        with first.process():
            wait_until(lambda: "orphaned-script-awaited" in first.log.read_text(), "h1 waits, too")
            assert fleet.calls() == FOO_0[:1]
            block.unlink()
            wait_for_versions([first, second], "r1")
    calls = [call.split()[:2] for call in fleet.calls()]
    assert calls[:2] == [["h1", "start"], ["h1", "end"]]
    for start, end in zip(calls[::2], calls[1::2], strict=True):
        assert start == [end[0], "start"]


@pytest.mark.parametrize("pair", ["0"], indirect=True)
def test_an_orphaned_script_keeps_its_lock_while_the_next_agent_waits_for_it(fleet, pair):
    first, second = pair
    block = kill_during_script(first)
    with first.process():
        wait_until(lambda: "orphaned-script-awaited" in first.log.read_text(), "h1 waits for its script")
        for contender in fleet.client.get_children("/agent-locks/who,myfoo"):  # the killed agent's session ends
            fleet.client.delete(f"/agent-locks/who,myfoo/{contender}")
        with second.process():
            waiting = "held by h1.example.com (h1), which has to complete deploy /who/myfoo 0"
            wait_until(lambda: waiting in second.status, "h2 waits without a lock delay")
            step = "wait for deploy /who/myfoo 0, which the previous agent began"
            assert (first.status, first.node["step"], first.node["deploying"]) == (step, step, "r1")
            assert fleet.calls() == FOO_0[:1]
            block.unlink()
            wait_for_versions([first, second], "r1")
    assert fleet.calls() == [*FOO_0, *FOO_0, "h2 start /who/myfoo 0", "h2 end /who/myfoo 0"]
    assert fleet.client.get_children("/zkdeployment/busy") == []


def cut_off(host: AgentHost) -> Path:
    """End the agent of a host in the middle of its first script; its scripts are blocked by the returned file."""
    block = host.block()
    with host.process() as agent:
        wait_until(host.fleet.calls, f"the script of {host.id}")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(60) == 0
    return block


@pytest.fixture
def hasty(fleet: Fleet) -> tuple[AgentHost, AgentHost]:
    """Two hosts of one service, whose agents cut scripts off when they have to end, without a lock delay."""
    hosts = tuple(fleet.host(name, lock_delay="0", stop_timeout="0.1") for name in ("h1", "h2"))
    for host in hosts:
        put_script(host.root, "foo")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1, h2=1)
    fleet.set_version("r1")
    return hosts


def test_a_host_whose_script_was_cut_off_completes_its_service_before_another_host_begins(fleet, hasty):
    first, second = hasty
    block = cut_off(first)
    assert fleet.get("/zkdeployment/busy/who,myfoo")["kept"]
    with second.process():
        wait_until(lambda: "h1.example.com (h1), which has to complete deploy" in second.status, "h2 waits for h1")
        block.unlink()
        with first.process():
            wait_for_versions([first, second], "r1")
    calls = ["h1 start", "h1 start", "h1 end", "h2 start", "h2 end"]
    assert fleet.calls() == [f"{call} /who/myfoo 0" for call in calls]
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_hosts_that_all_restart_at_once_leave_no_service_half_deployed_host_after_host(fleet, hasty):
    blocks = [host.block() for host in hasty]
    for _ in range(3):
        with hasty[0].process() as one, hasty[1].process() as two:
            calls = len(fleet.calls())
            wait_until(lambda calls=calls: len(fleet.calls()) > calls, "one of the hosts works")
            wait_until(lambda: all(host.node for host in hasty), "both are registered")
            for agent in (one, two):
                agent.send_signal(signal.SIGTERM)
            assert (one.wait(60), two.wait(60)) == (0, 0)
    assert len({call.split()[0] for call in fleet.calls()}) == 1, "the same host each time"
    for block in blocks:
        block.unlink()
    with hasty[0].process(), hasty[1].process():
        wait_for_versions(hasty, "r1")


def test_an_interrupted_host_releases_its_lock_when_it_should_no_longer_run_the_service(fleet, hasty):
    first, second = hasty
    cut_off(first).unlink()
    fleet.service("/who/myfoo", "foo", "1.0", h2=1)
    fleet.set_version("r2")
    with second.process():
        wait_until(lambda: "h1.example.com (h1), which has to complete deploy" in second.status, "h2 waits for h1")
        with first.process():
            wait_for_versions(hasty, "r2")
            assert "work-handed-on" in first.log.read_text()
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_host_that_was_cut_off_hands_its_lock_on_before_it_waits_for_another_host(fleet, hasty):
    first, second = hasty
    fleet.service("/who/other", "foo", "1.0", h1=1)
    with first.process():
        first.wait_for_version("r1")
    fleet.set_version("r2")
    fleet.journal.unlink()
    cut_off(first).unlink()
    assert fleet.client.get_children("/zkdeployment/busy") == ["who,myfoo"]
    fleet.service("/who/other", "foo", "1.0", h2=1)
    fleet.set_version("r3")
    other = f"{'a' * 32}__lock__0000000000"
    fleet.client.create(f"/agent-locks/who,other/{other}", b"h3.example.com (h3)", makepath=True)
    with first.process():
        wait_until(lambda: "wait for the lock of /who/other" in first.status, "h1 waits to undeploy")
        wait_until(lambda: not fleet.client.get_children("/zkdeployment/busy"), "its lock is handed on")
        fleet.client.delete(f"/agent-locks/who,other/{other}")
        with second.process():
            wait_for_versions(hasty, "r3")


def test_a_failure_of_a_host_that_was_cut_off_hands_its_lock_on(fleet, hasty):
    first, _ = hasty
    cut_off(first).unlink()
    fleet.service("/who/early", "foo", "1.0", h1=1)
    first.fail("/who/early 0")
    fleet.set_version("r2")
    with first.process():
        first.wait_for_error()
        wait_until(lambda: not fleet.client.get_children("/zkdeployment/busy"), "its lock is handed on")
    assert fleet.version is None


def test_a_frozen_host_loses_its_lock_but_no_other_host_starts_during_its_script(fleet, pair):
    first, second = pair
    block = first.block()
    with first.process() as agent:
        wait_until(fleet.calls, "the script of h1")
        agent.send_signal(signal.SIGSTOP)
        first.end_session()
        with second.process():
            wait_until(lambda: "whose session has ended" in second.status, "h2 waits for h1")
            block.unlink()
            wait_until(lambda: len(fleet.calls()) == 2, "the script ends")
            assert fleet.calls() == FOO_0
            agent.send_signal(signal.SIGCONT)
            wait_for_versions([first, second], "r1")
    assert fleet.calls() == [*FOO_0, "h2 start /who/myfoo 0", "h2 end /who/myfoo 0"]
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_partitioned_host_ends_its_script_and_its_peer_waits_for_the_lock_delay(fleet, proxy: Proxy):
    first = fleet.host("h1", zookeeper=through(proxy, fleet.connection))
    second = fleet.host("h2", lock_delay="2")
    for host in (first, second):
        put_script(host.root, "foo")
    fleet.service("/who/myfoo", "foo", "1.0", h1=2, h2=1)
    fleet.set_version("r1")
    block = first.block()
    with first.process():
        wait_until(fleet.calls, "the script of h1")
        proxy.freeze()
        first.end_session()
        with second.process():
            wait_until(lambda: "whose session has ended" in second.log.read_text(), "h2 waits for h1")
            second.wait_for_version("r1")
            block.unlink()
            wait_until(lambda: first.markers == ["who:myfoo.0.deployed"], "the step of h1 ends")
            assert len(fleet.calls()) == 4
            proxy.heal()
            first.wait_for_version("r1")
    assert fleet.calls().count("h1 start /who/myfoo 0") == 1
    assert fleet.client.get_children("/zkdeployment/busy") == []


@pytest.mark.parametrize(
    ("point", "whole"),
    [
        ("before:plan", True),
        ("before:give-up-version", True),
        ("after:give-up-version", False),
        ("before:deploy", False),
        ("after:deploy", False),
        ("before:record", False),
    ],
)
def test_a_rollback_of_a_killed_agent_deploys_the_former_version_again_only_after_changes(
    fleet, host, point, whole
):
    with host.process():
        host.wait_for_version("r1")
    fleet.set_version("r2")
    with host.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
    assert host.version_on_disk == ("r1" if whole else None)
    fleet.set_version("r1")
    fleet.journal.unlink()
    with host.process():
        host.wait_for_version("r1")
    assert fleet.calls() == ([] if whole else called("/who/myfoo 0", "/who/myfoo 1"))


@pytest.mark.parametrize(
    "point",
    [
        "before:plan",
        "before:prepare",
        "after:change-packages",
        "before:deploy@2",
        "before:marker",
        "before:release",
        "before:undeploy",
        "before:unmark",
        "after:undeploy",
        "before:clear",
        "before:drop",
        "after:remove-software",
        "before:after",
        "before:record",
        "after:record",
    ],
)
def test_an_agent_completes_the_deployment_of_a_killed_agent(fleet, host, point):
    with host.config.open("a") as config:
        config.write("after = /bin/true\n")
    put_script(host.root, "old", SCRIPT)
    managed = host.root / "var/lib/zkdeployment/managed.json"
    managed.parent.mkdir(parents=True)
    managed.write_text('{"old": "old"}')
    (host.root / "etc" / "old").mkdir(parents=True)
    (host.root / "etc" / "old" / "who,was.0.deployed").touch()
    (host.root / "etc" / "old" / "who,was.0.script").write_text("/opt/old/bin/zookeeper-deploy\n")
    with host.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
        assert host.version_on_disk is None or host.markers == ["who:myfoo.0.deployed", "who:myfoo.1.deployed"]
    with host.process():
        host.wait_for_version("r1")
    assert host.markers == ["who:myfoo.0.deployed", "who:myfoo.1.deployed"]
    assert json.loads((host.run / "host_version").read_text()) == "r1"
    assert {"h1 end -u /who/was 0", "h1 end /who/myfoo 0", "h1 end /who/myfoo 1"} <= set(fleet.calls())
    assert not (host.root / "opt/old").exists()
    assert not (host.root / "etc/old").exists()
    assert list(host.root.rglob(".*")) == []


def test_an_agent_that_was_suspended_beyond_its_session_starts_no_step_under_its_lost_lock(fleet):
    points = {"h1": "after:lock", "h2": "before:deploy"}
    hosts = [fleet.host(name) for name in points]
    for host in hosts:
        put_script(host.root, "foo")
        fleet.service(f"/who/{host.id}", "foo", "1.0", **{host.id: 2})
    fleet.set_version("r1")
    with ExitStack() as stack:
        agents = [stack.enter_context(host.process(failpoints=f"{points[host.id]}=freeze")) for host in hosts]
        for host, agent in zip(hosts, agents, strict=True):
            program, locks = psutil.Process(agent.pid), f"/agent-locks/who,{host.id}"
            wait_until(
                lambda program=program: program.status() == psutil.STATUS_STOPPED, "it sleeps with the lock"
            )
            assert fleet.client.get_children(locks)
        # A lock that was verified a moment ago counts as held: only time makes an agent verify it again.
        for host, agent in zip(hosts, agents, strict=True):
            locks = f"/agent-locks/who,{host.id}"
            wait_until(lambda locks=locks: not fleet.client.get_children(locks), "the lock is lost")
            agent.send_signal(signal.SIGCONT)
        wait_for_versions(hosts, "r1")
        assert [fleet.get(f"/hosts/{host.id}")["pid"] for host in hosts] == [agent.pid for agent in agents]
    for host in hosts:
        assert "lock-lost" in host.log.read_text()
        calls = [call for call in fleet.calls() if call.startswith(host.id)]
        assert calls == called(f"/who/{host.id} 0", f"/who/{host.id} 1", host=host.id)


def deploying(fleet: Fleet, proxy: Proxy) -> AgentHost:
    """Return a host that reaches ZooKeeper through a proxy, not started, with two instances to deploy."""
    host = fleet.host("h1", zookeeper=through(proxy, fleet.connection))
    put_script(host.root, "foo")
    fleet.service("/who/myfoo", "foo", "1.0", h1=2)
    fleet.set_version("r1")
    return host


def test_an_agent_without_zookeeper_completes_its_step_and_continues_after_the_outage(fleet, proxy: Proxy):
    host = deploying(fleet, proxy)
    block = host.block()
    with host.process():
        wait_until(fleet.calls, "the first script")
        proxy.cut()
        block.unlink()
        wait_until(lambda: host.markers == ["who:myfoo.0.deployed"], "the step ends")
        host.end_session()
        assert fleet.calls() == FOO_0
        proxy.heal()
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, "h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]


def test_a_failure_without_zookeeper_is_reported_after_the_outage_before_any_further_step(fleet, proxy: Proxy):
    host = deploying(fleet, proxy)
    host.fail("/who/myfoo 0")
    block = host.block()
    with host.process():
        wait_until(fleet.calls, "the first script")
        proxy.cut()
        block.unlink()
        wait_until(lambda: host.status == "error", "the failure is known here")
        assert fleet.version == "r1"
        proxy.heal()
        wait_until(lambda: fleet.version is None, "the fleet is stopped")
        host.wait_for_error()
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]


def test_sighup_reloads_the_configuration_after_the_current_deployment(fleet, host):
    block = host.block()
    with host.process() as agent:
        wait_until(fleet.calls, "the first script")
        with host.config.open("a") as config:
            config.write("tags = ssd\n")
        agent.send_signal(signal.SIGHUP)
        block.unlink()
        wait_until(lambda: host.node.get("tags") == ["ssd"] and host.has_finished("r1"), "the new tags")
        assert host.node["pid"] == agent.pid
        fleet.set_version("r2")
        host.wait_for_version("r2")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0
    assert fleet.get("/hosts/h1") == {}
    assert fleet.calls()[:4] == [*FOO_0, "h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]


@pytest.mark.parametrize("change", ["nonsense = 1", "script-timeout = soon", "run-directory"])
def test_sighup_with_an_invalid_or_an_unchanged_configuration_changes_nothing(fleet, host, change):
    text = host.config.read_text()
    with host.process() as agent:
        host.wait_for_version("r1")
        session = fleet.client.exists("/hosts/h1").ephemeralOwner
        wrong = f"{text}{change}\n"
        if change == "run-directory":  # a directory that cannot be created
            wrong = text.replace(str(host.run), str(host.config))
        host.config.write_text(wrong)
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration-not-reloaded" in host.log.read_text(), "it says so")
        assert change.partition(" ")[0] in host.log.read_text()
        host.config.write_text(text)
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration-unchanged" in host.log.read_text(), "it says so")
        assert fleet.client.exists("/hosts/h1").ephemeralOwner == session
        fleet.set_version("r2")
        host.wait_for_version("r2")


def test_the_watchdog_is_notified_by_idle_and_busy_agents_but_not_by_a_stuck_agent(
    fleet, host, tmp_path, monkeypatch
):
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    block = host.block()
    with heard(tmp_path / "notify") as messages, host.process() as agent:

        def alive(times: int) -> bool:
            return messages.count("WATCHDOG=1") > times

        wait_until(fleet.calls, "the script runs")
        wait_until(partial(alive, messages.count("WATCHDOG=1") + 3), "signs of life during the script")
        block.unlink()
        host.wait_for_version("r1")
        wait_until(partial(alive, messages.count("WATCHDOG=1") + 3), "signs of life of an idle agent")
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: messages.count("READY=1") == 2, "the end of the reload")
        assert any(message.startswith("RELOADING=1") for message in messages)
        agent.send_signal(signal.SIGSTOP)
        wait_until(lambda: psutil.Process(agent.pid).status() == psutil.STATUS_STOPPED, "it is stuck")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:  # it arrives after all that was sent before
            last.sendto(b"the agent is stopped", str(tmp_path / "notify"))
        wait_until(lambda: messages[-1] == "the agent is stopped", "all signs of life have arrived")
        with pytest.raises(AssertionError, match="in vain"):
            wait_until(lambda: messages[-1] != "the agent is stopped", "another sign of life", timeout=1)


def test_an_agent_that_started_before_zookeeper_retries_until_it_is_reachable(fleet, zookeeper_server):
    port = free_port()
    _, _, chroot = fleet.connection.partition("/")
    host = fleet.host("h1", zookeeper=f"127.0.0.1:{port}/{chroot}")
    with host.process() as agent:
        wait_until(lambda: host.log.exists() and "waiting-for-zookeeper" in host.log.read_text(), "it says so")
        with Proxy("127.0.0.1", zookeeper_server.port, listen=port):
            host.wait_for_version("initial")
            assert host.node["pid"] == agent.pid
            assert host.status == "done"


def test_an_agent_that_waits_for_zookeeper_can_be_stopped(fleet):
    host = fleet.host("h1", zookeeper="127.0.0.1:1")
    with host.process() as agent:
        wait_until(lambda: host.log.exists() and "waiting-for-zookeeper" in host.log.read_text(), "it says so")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0


def test_run_once_deploys_the_version_and_exits_with_0(fleet, host):
    done = host.command("--run-once")
    assert (done.returncode, done.stdout) == (0, "")
    assert host.status == "done"
    assert host.markers == ["who:myfoo.0.deployed", "who:myfoo.1.deployed"]
    assert fleet.get("/hosts/h1") == {}


#: Fails without its directory in /etc, and writes its environment to a file.
CURIOUS = """\
#!/bin/sh
[ -d "$ZKDEPLOYMENT_ROOT/etc/foo" ] && cat /proc/$$/environ > "$ZKDEPLOYMENT_ROOT/environment"
"""


def test_a_script_gets_its_directory_and_exactly_the_documented_environment(fleet, monkeypatch):
    host = fleet.host("h1", role="web")
    put_script(host.root, "foo", CURIOUS)
    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    fleet.set_version("r1")
    for name, value in {"HOME": "/nowhere", "LANG": "", "TOKEN": "hunter2"}.items():
        monkeypatch.setenv(name, value)
    done = host.command("--run-once")
    assert done.returncode == 0, done.stderr
    assert "home-corrected" in done.stderr
    entries = (host.root / "environment").read_text().rstrip("\0").split("\0")
    assert dict(entry.split("=", 1) for entry in entries) == {
        "HOME": pwd.getpwuid(os.geteuid()).pw_dir,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "ZC_ZK_CONNECTION_STRING": fleet.connection,
        "ZKDEPLOYMENT_ROOT": str(host.root),
        "ZKDEPLOYMENT_HOST_ID": "h1",
        "ZKDEPLOYMENT_DEPLOYMENT": "/who/myfoo 0",
        "ZKDEPLOYMENT_HOST_NAME": "h1.example.com",
        "ZKDEPLOYMENT_ROLE": "web",
        "ZKDEPLOYMENT_VERSION": "r1",
        "ZKDEPLOYMENT_CONFIG": str(host.config),
    }


@pytest.mark.parametrize("version", [None, False])
def test_run_once_deploys_nothing_while_the_cluster_is_stopped_or_held(fleet, host, version):
    fleet.set_version(version)
    assert host.command("--run-once").returncode == 3
    assert fleet.calls() == []


def test_run_once_exits_with_1_after_a_failed_deployment(fleet, host):
    host.fail("/who/myfoo 0")
    done = host.command("--run-once", "--verbose")
    assert done.returncode == 1
    assert "working on /who/myfoo 0" in done.stderr
    assert fleet.version is None


def test_run_once_does_not_wait_for_zookeeper(fleet):
    done = fleet.host("h1", zookeeper="127.0.0.1:1").command("--run-once")
    assert done.returncode == 7
    assert done.stderr.splitlines()[-1].startswith("zkdeployment: ZooKeeper cannot be reached at 127.0.0.1:1")


def test_a_dry_run_beside_a_running_agent_prints_the_plan_and_changes_nothing(fleet, host):
    fleet.set_version(None)
    with host.process():
        wait_until(lambda: fleet.get("/hosts/h1"), "registered")
        assert host.command("--dry-run").returncode == 3
        block = host.block()
        fleet.set_version("r1")
        wait_until(fleet.calls, "the agent runs a script")
        done = host.command("--dry-run")
        assert done.returncode == 0
        assert done.stdout.splitlines()[1:] == [
            "2. deploy /who/myfoo 0 (foo 1.0): new",
            "3. deploy /who/myfoo 1 (foo 1.0): new",
        ]
        assert fleet.calls() == FOO_0[:1]
        block.unlink()
        host.wait_for_version("r1")
        assert host.command("--dry-run").stdout == ""


def test_an_agent_of_another_host_with_this_id_is_refused_after_a_session_timeout(fleet, host):
    with host.process() as agent:
        host.wait_for_version("r1")
        settings = replace(
            load(host.config), run_directory=fleet.directory / "twin", root=fleet.directory / "other"
        )
        with (
            pytest.raises(RefusedError, match=f"another agent is running with host id h1.*process {agent.pid}"),
            build_agent(settings, session_timeout=2) as (twin, _),
        ):
            twin.run()
        assert fleet.get("/hosts/h1")["pid"] == agent.pid


def test_a_copy_of_a_machine_is_refused_and_the_original_host_is_unchanged(fleet, host):
    block = host.block()
    with host.process():
        wait_until(fleet.calls, "the first script")
        before = [
            fleet.client.get_children("/agent-locks/who,myfoo"),
            fleet.client.get_children("/zkdeployment/busy"),
        ]
        node = fleet.client.exists("/hosts/h1")
        copy = shutil.copytree(host.run, fleet.directory / "copy")
        settings = replace(load(host.config), run_directory=copy, root=fleet.directory / "other")
        with (
            pytest.raises(RefusedError, match="another agent is running with host id h1") as refused,
            build_agent(settings, session_timeout=2) as (clone, _),
        ):
            clone.run()
        assert refused.value.exit_code == 3
        stat = fleet.client.exists("/hosts/h1")
        assert (stat.czxid, stat.ephemeralOwner) == (node.czxid, node.ephemeralOwner)
        assert before == [
            fleet.client.get_children("/agent-locks/who,myfoo"),
            fleet.client.get_children("/zkdeployment/busy"),
        ]
        block.unlink()
        host.wait_for_version("r1")
    assert fleet.calls() == [*FOO_0, "h1 start /who/myfoo 1", "h1 end /who/myfoo 1"]


def test_the_asserted_address_is_checked_before_any_connection(host):
    done = host.command("-z", "192.0.2.7")
    assert done.returncode == 3
    assert "another ZooKeeper: expected only 192.0.2.7 behind 127.0.0.1:" in done.stderr
    assert not host.run.exists()


def test_an_agent_whose_zookeeper_has_the_asserted_address_runs(host):
    assert host.command("-1", "-z", "192.0.2.7", "-z", "127.0.0.1").returncode == 0
    assert host.has_finished("r1") or host.version_on_disk == "r1"


def test_a_new_configuration_with_another_zookeeper_is_refused(host):
    before = host.config.read_text()
    with host.process("-z", "127.0.0.1") as agent:
        host.wait_for_version("r1")
        host.config.write_text(re.sub("zookeeper = .*", "zookeeper = 127.0.0.2:2181", before))
        agent.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration-not-reloaded" in host.log.read_text(), "refused")
        host.wait_for_version("r1")


def test_a_configuration_error_is_one_line_without_a_stack_trace(host):
    host.config.write_text("[zkdeployment]\nrun-directory = /tmp\n")
    done = host.command()
    assert done.returncode == 2
    assert "host-id not specified" in done.stderr
    assert "Traceback" not in done.stderr


def wait_for_script(host: AgentHost) -> psutil.Process:
    record = host.run / "script"
    wait_until(lambda: record.exists() and "pid" in json.loads(record.read_text()), "the record of the script")
    script = psutil.Process(json.loads(record.read_text())["pid"])
    assert os.getsid(script.pid) == script.pid
    return script


@pytest.fixture
def program(tmp_path) -> Path:
    """A copy of the program, in a directory of its own."""
    return shutil.copytree(Path(zkdeployment.__file__).parent, tmp_path / "program" / "zkdeployment")


def upgrade(program: Path) -> None:
    """Replace the program by a version in which every module has moved."""
    newer = program.parent / "newer"
    newer.mkdir()
    (newer / "__init__.py").write_bytes((program / "__init__.py").read_bytes())
    program.rename(program.parent / "older")
    newer.rename(program)


def test_an_upgraded_agent_ends_its_deployment_and_restarts_although_every_module_has_moved(fleet, host, program):
    block = host.block()
    with host.new_process(PYTHONPATH=str(program.parent)) as agent:
        wait_until(fleet.calls, "the first script")
        upgrade(program)
        block.unlink()
        assert agent.wait() == 75
    assert host.status == "done"
    assert host.markers == ["who:myfoo.0.deployed", "who:myfoo.1.deployed"]
    assert "zkdeployment was upgraded" in host.log.read_text()
    assert fleet.get("/hosts/h1") == {}


def test_an_upgraded_agent_restarts_and_leaves_a_new_configuration_to_the_new_program(fleet, host, program):
    block = host.block()
    with host.new_process(PYTHONPATH=str(program.parent)) as agent:
        wait_until(fleet.calls, "the first script")
        with host.config.open("a") as config:
            config.write(f"metrics = {host.root}/metrics.prom\npublishers = {host.root}/publishers\n")
        agent.send_signal(signal.SIGHUP)
        upgrade(program)
        block.unlink()
        assert agent.wait() == 75
    log = host.log.read_text()
    assert "zkdeployment was upgraded" in log
    assert "configuration-reloaded" not in log
    assert "Traceback" not in log


def test_an_upgraded_agent_reports_a_failure_although_every_module_has_moved(fleet, host, program):
    host.fail("/who/myfoo 1")
    block = host.block()
    with host.new_process(PYTHONPATH=str(program.parent)) as agent:
        wait_until(fleet.calls, "the first script")
        upgrade(program)
        block.unlink()
        assert agent.wait() == 75
    assert "boom on purpose" in host.log.read_text()
    assert "No module named" not in host.log.read_text()
    assert fleet.version is None

"""The provide command registers an instance as long as the command or the given process runs."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from support.forks import ForkedProgram
from support.waiting import wait_until
from support.zookeeper import through

PATH = "/shop/web/providers"


@pytest.fixture
def provide(zookeeper, client, tmp_path):
    client.create(PATH, makepath=True)
    client.create("/hosts")
    client.create("/alias", b'{"web ->": "/shop/web"}')
    started = []

    def start(*argv: str, connection: str = zookeeper):
        place = tmp_path / str(len(started))
        place.mkdir()
        with (place / "output").open("w") as output, (place / "errors").open("w") as errors:
            process = ForkedProgram(["provide", "-z", connection, *argv], output=output, errors=errors)
        process.place = place
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def ended(process):
    """Return the exit status, the output and the errors of a process as soon as it has ended."""
    return process.wait(), *((process.place / name).read_text() for name in ("output", "errors"))


def test_a_process_is_registered_until_it_is_asked_to_end(provide, client):
    process = provide("/alias/web/providers", "app1:80", "-p", "zone=a", "-p", "weight=7", "-p", "tags=['x']")
    node = f"{PATH}/app1:80"
    wait_until(lambda: client.exists(node), "the node")
    data, stat = client.get(node)
    assert json.loads(data) == {"pid": process.pid, "zone": "a", "weight": 7, "tags": ["x"]}
    assert stat.ephemeralOwner
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert not client.exists(node)


def test_a_program_of_a_deploy_script_registers_its_host_deployment_and_version(provide, client, monkeypatch):
    monkeypatch.setenv("ZKDEPLOYMENT_HOST_ID", "h1")
    monkeypatch.setenv("ZKDEPLOYMENT_DEPLOYMENT", "/shop/web 0")
    monkeypatch.setenv("ZKDEPLOYMENT_VERSION", "c0ffee")
    process = provide(PATH, "app1:80", "-p", "version=2.10")
    wait_until(lambda: client.exists(f"{PATH}/app1:80"), "the node")
    data, _ = client.get(f"{PATH}/app1:80")
    assert json.loads(data) == {"pid": process.pid, "host": "h1", "deployment": "/shop/web 0", "version": "2.10"}


def test_a_commands_pid_is_registered_and_its_exit_status_is_returned(provide, client, tmp_path):
    go = tmp_path / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    script = f"{wait}print('out')\nraise SystemExit(7)"
    process = provide(PATH, "app1:80", "--", sys.executable, "-c", script)
    wait_until(lambda: client.exists(f"{PATH}/app1:80"), "the node")
    pid = json.loads(client.get(f"{PATH}/app1:80")[0])["pid"]
    assert pid != process.pid
    os.kill(pid, 0)
    go.touch()
    code, out, _ = ended(process)
    assert (code, out) == (7, "out\n")
    assert not client.exists(f"{PATH}/app1:80")


def test_sigterm_is_passed_on(provide, client):
    process = provide(PATH, "app1:80", "--", "sleep", "1000")
    wait_until(lambda: client.exists(f"{PATH}/app1:80"), "the node")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 128 + signal.SIGTERM


def test_a_provider_is_registered_again_after_the_loss_of_the_session(provide, zookeeper, client, proxy):
    process = provide(PATH, "app1:80", connection=through(proxy, zookeeper))
    node = f"{PATH}/app1:80"
    wait_until(lambda: client.exists(node), "the node")
    first = client.get(node)[1].ephemeralOwner
    proxy.cut()
    wait_until(lambda: not client.exists(node), "the session expires")
    proxy.heal()
    wait_until(lambda: client.exists(node), "the node again")
    assert client.get(node)[1].ephemeralOwner != first
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0


def test_the_node_of_a_killed_instance_is_taken_over(provide, client):
    first = provide(PATH, "app1:80")
    node = f"{PATH}/app1:80"
    wait_until(lambda: client.exists(node), "the node")
    first.kill()
    second = provide(PATH, "app1:80")
    wait_until(
        lambda: client.exists(node) and json.loads(client.get(node)[0])["pid"] == second.pid, "the new node"
    )
    assert client.get_children(PATH) == ["app1:80"]
    assert second.poll() is None


def test_an_instance_that_another_one_displaced_registers_again_and_both_log_what_happens(provide, client):
    node = f"{PATH}/app1:80"

    def has(process):
        return client.exists(node) and json.loads(client.get(node)[0])["pid"] == process.pid

    first = provide(PATH, "app1:80")
    wait_until(lambda: has(first), "the first node")
    second = provide(PATH, "app1:80")
    errors = first.place / "errors"
    wait_until(lambda: "displaced-by-another-instance" in errors.read_text(), "the first one notices it")
    second.send_signal(signal.SIGTERM)
    code, _, log_of_second = ended(second)
    assert (code, log_of_second.count("instance-registered")) == (0, 1)
    assert f'"pid": {first.pid}, "hint": "another process had registered this address' in log_of_second
    wait_until(lambda: has(first), "the first node again")
    client.delete(node)
    wait_until(lambda: has(first), "the first node after it was removed by hand")
    first.send_signal(signal.SIGTERM)
    code, _, text = ended(first)
    assert (code, text.count("displaced-by"), text.count("instance-registered")) == (0, 1, 3)
    assert f'"pid": {second.pid}, "hint": "another process registered this address; this one' in text
    assert not client.exists(node)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("/nowhere", "app1:80"), 1, "there is no node /nowhere"),
        (("/hosts", "h9"), 3, "nothing may be registered under /hosts"),
        (("/", "h9"), 3, "nothing may be registered under /"),
        (("/shop/web", "providers"), 3, "/shop/web/providers is a node of the tree"),
        ((PATH, "app/80"), 2, "is not an address"),
        (("shop", "app1:80"), 2, "'shop' is not the path of a node: expected /shop"),
        ((PATH, "a:1", "-p", "novalue"), 2, "is not a property: expected KEY=VALUE"),
        ((PATH, "a:1", "-p", "a b=1"), 2, "is not a property name"),
        ((PATH, "a:1", "--", "/no/such/program"), 1, "cannot run /no/such/program"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_registered(provide, client, argv, code, message):
    exit_code, _, err = ended(provide(*argv))
    assert exit_code == code
    assert message in err
    assert "Traceback" not in err
    assert client.get_children(PATH) == []


def test_no_zookeeper_is_exit_code_7_and_the_command_is_not_started(provide, tmp_path):
    code, _, err = ended(provide(PATH, "a:1", "--", "touch", str(tmp_path / "ran"), connection="127.0.0.1:1"))
    assert code == 7
    assert "127.0.0.1:1: Connection refused" in err
    assert not (tmp_path / "ran").exists()


def test_an_instance_is_drained_before_its_command_ends(provide, client, tmp_path):
    """The command ends at SIGTERM; a second signal ends it at once."""
    told, ready = tmp_path / "told", tmp_path / "ready"
    script = (
        "import signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(told)!r}, 'w').close(), sys.exit(9)))\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "while True: time.sleep(1)\n"
    )
    process = provide(PATH, "app1:80", "--drain", "600", "--", sys.executable, "-c", script)
    wait_until(lambda: client.exists(f"{PATH}/app1:80") and ready.exists(), "the node of the command")
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: not client.exists(f"{PATH}/app1:80"), "no node")
    assert (process.poll(), told.exists()) == (None, False)
    process.send_signal(signal.SIGTERM)
    assert (ended(process)[0], told.exists()) == (9, True)

    brief = provide(PATH, "app2:80", "--drain", "0.2", "--", "sleep", "600")
    wait_until(lambda: client.exists(f"{PATH}/app2:80"), "the node")
    brief.send_signal(signal.SIGTERM)
    assert ended(brief)[0] == 128 + signal.SIGTERM

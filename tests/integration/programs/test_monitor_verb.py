"""The Nagios check on a real ZooKeeper."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time

import pytest

from support.proxy import switched_off_server
from support.zookeeper import write_node


def check(*argv):
    program = "from zkdeployment.programs.main import check; check()"
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, argv)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    return done.returncode, done.stdout.strip()


def register(client, version, **more):
    write_node(client, "/hosts", {"version": version})
    node = {"name": "h1.example.com", "version": version} | more
    write_node(client, "/hosts/h1", node, ephemeral=True)


def write_status(tmp_path, text, *, age=0.0):
    (tmp_path / "status").write_text(f"{time.time() - age} 123 {text}\n")


def test_a_converged_host_is_ok_and_shows_its_version(config, client, tmp_path):
    register(client, "r1", steps=[3, 7])
    write_status(tmp_path, "r1 done", age=5000)
    code, line = check(config)
    assert code == 0
    assert re.fullmatch(r"ZKDEPLOYMENT OK - r1 \| age=[\d.]+s;200;600;0 lag=0.0s;;;0 steps=3;;;0;7", line)


@pytest.mark.parametrize(
    ("age", "options", "code", "message"),
    [
        (100, (), 0, "deploy /web 0"),
        (300, (), 1, "Too long deploying r2"),
        (700, (), 2, "Too long deploying r2"),
        (100, ("-w", "50"), 1, "more than 50 s"),
        (100, ("-w", "50", "-c", "60"), 2, "more than 60 s"),
        (100, ("-e", "60"), 2, "more than 60 s"),
    ],
)
def test_a_step_that_takes_long_is_a_warning_then_critical(config, client, tmp_path, age, options, code, message):
    register(client, "r2")
    write_status(tmp_path, "r2 deploy /web 0", age=age)
    problems, line = check(config, *options)
    assert problems == code
    assert message in line


def test_a_failed_deployment_is_critical_and_shows_the_reason(config, client, tmp_path):
    register(client, "r1", error="the script of /web 0 failed | badly")
    write_status(tmp_path, "r1 error")
    code, line = check(config)
    assert code == 2
    assert "the script of /web 0 failed / badly" in line


def test_all_stop_is_a_warning(config, client, tmp_path):
    register(client, None)
    write_status(tmp_path, "r1 done")
    code, line = check(config)
    assert code == 1
    assert "Cluster version is None" in line


def test_a_host_that_is_not_registered_is_critical(config):
    code, line = check(config)
    assert code == 2
    assert line == "ZKDEPLOYMENT CRITICAL - Host not registered"


def test_without_a_status_file_it_is_critical(config, client):
    register(client, "r1")
    code, line = check(config)
    assert code == 2
    assert "Status file unreadable" in line


def test_zookeeper_out_of_reach_is_critical(config):
    code, line = check(config, "-z", "127.0.0.1:1")
    assert code == 2
    assert "ZooKeeper cannot be reached at 127.0.0.1:1" in line


@pytest.mark.parametrize("argv", [[], ["/does/not/exist.cfg"], ["x.cfg", "--wrong"], ["x.cfg", "-w", "fast"]])
def test_wrong_usage_is_unknown(argv):
    code, line = check(*argv)
    assert code == 3
    assert line.startswith("ZKDEPLOYMENT UNKNOWN")


@pytest.mark.parametrize("fleet", [True, False])
def test_an_invalid_address_is_unknown_not_unreachable(config, fleet):
    argv = ["--cluster"] if fleet else [config]
    assert check(*argv, "-z", "a b") == (
        3,
        "ZKDEPLOYMENT UNKNOWN - --zookeeper: expected HOST:PORT[,HOST:PORT…][/CHROOT], found 'a b'",
    )


def test_a_held_or_stopped_cluster_names_who_did_it(config, client, tmp_path):
    register(client, False)
    write_status(tmp_path, "r1 done")
    stop = {"by": "ann@adm1", "step": "hold", "reason": "rack 7", "time": 1.0}
    write_node(client, "/zkdeployment/stops/~ann@adm1", stop)
    code, line = check(config)
    assert code == 1
    assert re.fullmatch(
        r"ZKDEPLOYMENT WARNING - Cluster version is False: held by ann@adm1: rack 7 \(\d+ d ago\)", line
    )


def test_a_zookeeper_that_does_not_answer_is_critical_within_the_time_given(config):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        code, line = check(config, "-z", f"127.0.0.1:{silent.getsockname()[1]}", "-t", "20")
    assert code == 2
    assert "does not answer" in line
    assert time.monotonic() - began < 60


def test_several_switched_off_servers_are_critical_within_the_time_given(config):
    with switched_off_server() as one, switched_off_server() as two, switched_off_server() as three:
        code, line = check(config, "-z", f"{one},{two},{three}", "-t", "8")
    assert code == 2
    assert f"ZooKeeper cannot be reached at {one}: timed out" in line


def test_a_check_that_times_out_is_unknown(config, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/id"
        config.write_text(f"[zkdeployment]\nhost-id = {url}\nrun-directory = {tmp_path}\n")
        code, line = check(config, "-t", "1")
    assert (code, line) == (3, "ZKDEPLOYMENT UNKNOWN: this check did not end within 1 s")


def test_the_session_is_closed_after_every_check(config, client, tmp_path):
    def sessions():
        listed = client.command(b"dump").partition("ephemeral nodes dump")[0]
        return set(re.findall(r"^\s*(0x[0-9a-f]+)$", listed, re.MULTILINE))

    before = sessions()
    assert f"{client.client_id[0]:#x}" in before
    check(config)
    register(client, "r1")
    write_status(tmp_path, "r1 done")
    check(config)
    check("--cluster", "-z", "/".join(client_address(client)))
    assert sessions() <= before


class TestCluster:
    def test_a_converged_fleet_is_ok(self, client):
        register(client, "r1")
        code, line = check("--cluster", "-z", "/".join(client_address(client)))
        assert code == 0
        assert re.fullmatch(
            r"ZKDEPLOYMENT OK - Converged at r1, set \d+ s ago: 1 host \|"
            r" absent=0;;;0 behind=0;;;0 converged=1;;;0;1 failed=0;;;0 hosts=1;;;0 lag=0s;;;0",
            line,
        )

    @pytest.mark.parametrize(("options", "code"), [((), 0), (("-w", "@0:15"), 1), (("-c", "10:"), 2)])
    def test_a_host_that_is_behind_is_judged_by_minutes(self, client, options, code):
        register(client, "r1")
        client.set("/hosts", b'{"version": "r2"}')
        problems, line = check("--cluster", "-z", "/".join(client_address(client)), *options)
        assert problems == code
        assert "1 host behind r2 for" in line
        assert "slowest: h1.example.com (not begun)" in line

    def test_zookeeper_is_found_as_by_other_verbs(self, config, client, monkeypatch):
        register(client, "r1")
        assert check("--cluster", config)[0] == 0
        monkeypatch.setenv("ZKDEPLOYMENT_CONFIG", str(config))
        assert check("--cluster")[0] == 0

    def test_zookeeper_out_of_reach_is_critical(self):
        code, line = check("--cluster", "-z", "127.0.0.1:1")
        assert code == 2
        assert "ZooKeeper cannot be reached at 127.0.0.1:1" in line


def client_address(client):
    """Return the servers and the chroot of a kazoo client."""
    host, port = client.hosts[0]
    return f"{host}:{port}", client.chroot.lstrip("/")

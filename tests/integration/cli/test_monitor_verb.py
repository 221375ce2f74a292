"""The Nagios check on a real ZooKeeper."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest


@pytest.fixture
def config(tmp_path, zookeeper):
    file = tmp_path / "zkdeployment.cfg"
    file.write_text(
        "[zkdeployment]\nhost-id = h1\nhost-name = h1.example.com\n"
        f"run-directory = {tmp_path}\nzookeeper = {zookeeper}\n"
    )
    return file


def check(*argv):
    program = "from zkdeployment.cli.main import check; check()"
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, argv)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    return done.returncode, done.stdout.strip()


def register(client, version, **more):
    client.create("/hosts", json.dumps({"version": version}).encode())
    node = {"name": "h1.example.com", "version": version} | more
    client.create("/hosts/h1", json.dumps(node).encode(), ephemeral=True)


def write_status(tmp_path, text, *, age=0.0):
    (tmp_path / "status").write_text(f"{time.time() - age} 123 {text}\n")


def test_a_converged_host_is_ok_and_shows_its_version(config, client, tmp_path):
    register(client, "r1")
    write_status(tmp_path, "r1 done", age=5000)
    code, line = check(config)
    assert code == 0
    assert re.fullmatch(r"ZKDEPLOY OK - r1 \| age=[\d.]+s;200;600;0", line)


@pytest.mark.parametrize(
    ("age", "options", "code", "words"),
    [
        (100, (), 0, "deploy /web 0"),
        (300, (), 1, "Too long deploying r2"),
        (700, (), 2, "Too long deploying r2"),
        (100, ("-w", "50"), 1, "more than 50 s"),
        (100, ("-w", "50", "-c", "60"), 2, "more than 60 s"),
        (100, ("-e", "60"), 2, "more than 60 s"),
    ],
)
def test_a_step_that_takes_long_is_a_warning_then_critical(config, client, tmp_path, age, options, code, words):
    register(client, "r2")
    write_status(tmp_path, "r2 deploy /web 0", age=age)
    found, line = check(config, *options)
    assert found == code
    assert words in line


def test_a_failed_deployment_is_critical_and_says_why(config, client, tmp_path):
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
    assert line == "ZKDEPLOY CRITICAL - Host not registered"


def test_without_a_status_file_it_is_critical(config, client):
    register(client, "r1")
    code, line = check(config)
    assert code == 2
    assert "Status file unreadable" in line


def test_zookeeper_out_of_reach_is_critical(config):
    code, line = check(config, "-z", "127.0.0.1:1")
    assert code == 2
    assert "ZooKeeper cannot be reached at 127.0.0.1:1" in line


@pytest.mark.parametrize("argv", [[], ["/does/not/exist.cfg"], ["x.cfg", "--wrong"]])
def test_wrong_usage_is_unknown(argv):
    code, line = check(*argv)
    assert code == 3
    assert line.startswith("ZKDEPLOY UNKNOWN")

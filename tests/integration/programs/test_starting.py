"""Commands import only the modules they need: imports cost time in every check and memory in every agent."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from support.agents import Fleet
from support.waiting import wait_until

#: Modules that are slow to import and that only some commands need; agents need none of them.
HEAVY = {
    "asyncio",
    "email",
    "git",
    "importlib.metadata",
    "jsonschema",
    "prometheus_client",
    "psutil",
    "rich",
    "smtplib",
    "tenacity",
    "urllib3",
    "yaml",
    "zkdeployment.sandbox",
    "zkdeployment.fleet.operator",
    "zkdeployment.programs.syncer",
}

#: Modules that agents need, and few commands.
OF_AGENTS = {
    "structlog",
    "zkdeployment.agent.daemon",
    "zkdeployment.agent.rules",
    "zkdeployment.strategies.permission",
    "zkdeployment.tree",
    "zkdeployment.programs.agent",
}

PROGRAM = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps([*sys.modules]), file=sys.stderr))
from zkdeployment.programs.main import main
main(sys.argv[1:])
"""


def imported(*argv: object) -> set[str]:
    """Run the program; return the names of all imported modules."""
    command = [sys.executable, "-c", PROGRAM, *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["completion", "bash"]], ids=" ".join)
def test_help_does_not_import_the_modules_that_verbs_need(argv):
    needed = {"kazoo", "nagiosplugin", "zkdeployment.zookeeper", "zkdeployment.base.host"}
    assert not imported(*argv) & (HEAVY | OF_AGENTS | needed)


def test_the_check_of_a_host_imports_only_the_modules_that_it_needs(zookeeper, client, tmp_path):
    client.create("/hosts", b'{"version": "r1"}')
    client.create("/hosts/h1", b'{"name": "h1", "version": "r1"}')
    (tmp_path / "status").write_text(f"{time.time()} 1 r1 done\n")
    config = tmp_path / "host.cfg"
    config.write_text(
        f"[zkdeployment]\nhost-id = h1\nhost-name = h1\nrun-directory = {tmp_path}\nzookeeper = {zookeeper}\n"
    )
    modules = imported("monitor", config)
    assert {"kazoo.client", "nagiosplugin", "zkdeployment.fleet.views.health"} <= modules
    assert not modules & (HEAVY | OF_AGENTS)
    assert not modules & {
        "zkdeployment.fleet.store.fleet_reader",
        "zkdeployment.base.features",
        "zkdeployment.fleet.views.status",
        "zkdeployment.service.users.user",
        "zkdeployment.strategies.strategy",
    }


def test_the_status_of_the_fleet_imports_nothing_of_the_files_of_an_agent(zookeeper, client):
    client.create("/hosts", b'{"version": "r1"}')
    client.create("/hosts/h1", b'{"name": "h1", "version": "r1"}')
    modules = imported("status", "--zookeeper", zookeeper)
    assert "zkdeployment.fleet.operator" in modules
    assert not modules & {"zkdeployment.agent.files.run_directory", "tempfile", "shutil", "bz2", "lzma"}


def test_an_agent_without_options_keeps_only_the_modules_that_it_needs(zookeeper, client, tmp_path):
    fleet = Fleet(tmp_path, zookeeper, client)
    fleet.set_version("r1")
    host = fleet.host("h1")
    command = [sys.executable, "-c", PROGRAM, "agent", str(host.config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent:
        try:
            wait_until(lambda: host.has_finished("r1") or agent.poll() is not None, "the agent deploys")
        finally:
            agent.terminate()
        _, err = agent.communicate()
    assert agent.returncode == 0
    modules = set(json.loads(err.splitlines()[-1]))
    assert OF_AGENTS | {"kazoo.client", "zkdeployment.agent.daemon.agent"} <= modules
    assert not modules & HEAVY
    unneeded = {
        "click",
        "ctypes",
        "zkdeployment.publishing.sources",
        "zkdeployment.agent.packages.dnf",
        "zkdeployment.agent.telemetry",
        "zkdeployment.programs.verbs",
        "zkdeployment.base.features",
        "zkdeployment.base.daemon.metrics",
        "zkdeployment.publishing.records",
        "zkdeployment.publishing.signing",
        "zkdeployment.strategies.strategy",
        "zkdeployment.service",
        "zkdeployment.pools",
        "zkdeployment.pools.host.leases",
        "zkdeployment.programs.host_trust",
    }
    assert modules & unneeded == set()


def test_a_command_that_logs_imports_the_logging_library_on_demand():
    program = (
        "from zkdeployment.base import log; import logging, sys\n"
        "log.configure(quiet=True)\n"
        "assert 'structlog' not in sys.modules\n"
        "logging.getLogger('kazoo.client').error('it broke')\n"
        "log.get_logger().error('failed', token='hunter2')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    library, own = map(json.loads, done.stderr.splitlines())
    assert (library["event"], library["level"]) == ("it broke", "error")
    assert (own["event"], own["token"]) == ("failed", "***")

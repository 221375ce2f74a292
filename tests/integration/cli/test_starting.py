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
    "urllib3",
    "yaml",
    "zkdeployment.sandbox",
    "zkdeployment.wiring.operator",
    "zkdeployment.wiring.syncer",
}

#: Modules that agents need, and few commands.
OF_AGENTS = {
    "structlog",
    "tenacity",
    "zkdeployment.daemons",
    "zkdeployment.planning",
    "zkdeployment.rollout",
    "zkdeployment.tree",
    "zkdeployment.wiring.agent",
}

PROGRAM = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps([*sys.modules]), file=sys.stderr))
from zkdeployment.cli.main import main
main(sys.argv[1:])
"""


def imported(*argv: object) -> set[str]:
    """Run the program; return the names of all imported modules."""
    command = [sys.executable, "-c", PROGRAM, *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["completion", "bash"]], ids=" ".join)
def test_help_imports_none_of_the_modules_that_verbs_need(argv):
    needed = {"kazoo", "nagiosplugin", "zkdeployment.adapters", "zkdeployment.model"}
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
    assert {"kazoo.client", "nagiosplugin", "zkdeployment.fleet.health"} <= modules
    assert not modules & (HEAVY | OF_AGENTS)
    assert not modules & {
        "zkdeployment.adapters.zookeeper.operator.fleet_reader",
        "zkdeployment.config.nagios",
        "zkdeployment.config.pools",
        "zkdeployment.config.server",
        "zkdeployment.fleet.status",
        "zkdeployment.model.user",
        "zkdeployment.model.strategy",
    }


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
    assert OF_AGENTS | {"kazoo.client", "zkdeployment.daemons.agent.agent"} <= modules
    assert not modules & HEAVY
    assert not modules & {
        "click",
        "ctypes",
        "zkdeployment.adapters.git",
        "zkdeployment.adapters.metrics_file",
        "zkdeployment.adapters.packages.dnf",
        "zkdeployment.adapters.svn",
        "zkdeployment.adapters.zookeeper.awaited_services",
        "zkdeployment.cli.program",
        "zkdeployment.config.server",
        "zkdeployment.daemons.agent.lease_follower",
        "zkdeployment.daemons.agent.plan_preview",
        "zkdeployment.daemons.telemetry.probe",
        "zkdeployment.fleet.metrics",
        "zkdeployment.model.publishing",
        "zkdeployment.model.strategy",
        "zkdeployment.model.user",
        "zkdeployment.pools",
        "zkdeployment.signing",
        "zkdeployment.wiring.host",
    }


def test_a_command_that_logs_imports_the_logging_library_on_demand():
    program = (
        "from zkdeployment import log; import logging, sys\n"
        "log.configure(quiet=True)\n"
        "assert 'structlog' not in sys.modules\n"
        "logging.getLogger('kazoo.client').error('it broke')\n"
        "log.get_logger().error('failed', token='hunter2')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    library, own = map(json.loads, done.stderr.splitlines())
    assert (library["event"], library["level"]) == ("it broke", "error")
    assert (own["event"], own["token"]) == ("failed", "***")

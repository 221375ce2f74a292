"""The host names of agents: fully qualified also while DNS does not answer, and unique."""

import shutil
import socket
import threading
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from support.agents import AgentHost, called, put_script
from support.waiting import wait_until
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.plan import Deploy, Undeploy
from zkdeployment.config.settings import load
from zkdeployment.programs import agent
from zkdeployment.programs.agent import build_agent, preview_plan, run_agent


@pytest.fixture
def machine(monkeypatch):
    """Set the host name of the machine."""

    def be_called(name: str) -> None:
        monkeypatch.setattr(socket, "getfqdn", lambda: name)

    return be_called


@pytest.fixture
def host(fleet, machine) -> AgentHost:
    """A host with deployments under its full name, after a reboot that deleted its run directory."""
    host = fleet.host("h1")
    lines = host.config.read_text().splitlines(keepends=True)
    host.config.write_text("".join(line for line in lines if not line.startswith("host-name")))
    put_script(host.root, "foo")
    fleet.service("/who/myfoo", "foo", "1.0", **{"h1.example.com": 1})
    fleet.set_version("r1")
    machine("h1.example.com")
    with host.agent():
        host.wait_for_version("r1")
    shutil.rmtree(host.run)
    fleet.set_version("r2")
    return host


@contextmanager
def following(host):
    control = Control(SystemClock())
    thread = threading.Thread(target=run_agent, args=(load(host.config), control))
    thread.start()
    try:
        yield
    finally:
        control.stop()
        thread.join()
        assert not thread.is_alive()


def test_a_host_that_booted_without_dns_keeps_its_full_name_and_its_deployments(fleet, host, machine):
    machine("h1")
    with capture_logs() as logs, host.agent():
        host.wait_for_version("r2")
        assert host.node["name"] == "h1.example.com"
    assert {
        "event": "host-name-remembered",
        "log_level": "warning",
        "found": "h1",
        "name": "h1.example.com",
    } in logs
    assert fleet.calls() == called("/who/myfoo 0", "/who/myfoo 0")


def test_an_agent_on_a_machine_with_another_name_without_a_domain_makes_no_change(
    fleet, host, machine, monkeypatch
):
    monkeypatch.setattr(agent, "_POLL", 0.05)
    machine("localhost")
    with capture_logs() as logs, following(host):
        wait_until(lambda: "host-name-awaited" in [line["event"] for line in list(logs)], "it waits")
        assert fleet.get("/hosts/h1") == {}
        machine("h1.example.com")
        host.wait_for_version("r2")
    assert fleet.calls() == called("/who/myfoo 0", "/who/myfoo 0")
    [waiting] = [line for line in logs if line["event"] == "host-name-awaited"]
    assert "(like h1.example.com (h1) before), found 'localhost'" in waiting["reason"]


def test_a_new_host_on_a_machine_without_a_domain_does_not_register(fleet, host, machine):
    (host.root / "var/lib/zkdeployment/identity").unlink()
    machine("localhost")
    with capture_logs() as logs, following(host):
        wait_until(lambda: "host-name-awaited" in [line["event"] for line in list(logs)], "it waits")
        assert fleet.get("/hosts/h1") == {}
    [waiting] = [line for line in logs if line["event"] == "host-name-awaited"]
    assert "expected a name with a domain, found 'localhost'" in waiting["reason"]


def test_an_agent_that_waits_for_its_name_can_be_stopped(host, machine):
    machine("localhost")
    with capture_logs() as logs, following(host):
        wait_until(lambda: "host-name-awaited" in [line["event"] for line in list(logs)], "it waits")
    assert "host-registered" not in [line["event"] for line in logs]


def test_a_single_run_or_a_preview_without_a_full_name_is_refused(host, machine):
    machine("other")
    settings = load(host.config)
    with pytest.raises(RefusedError, match="correct DNS, or set host-name"), build_agent(settings):
        pass
    with pytest.raises(RefusedError, match="correct DNS, or set host-name"):
        preview_plan(settings)


def test_a_preview_without_dns_uses_the_full_name(host, machine):
    machine("h1")
    plan = preview_plan(load(host.config)).plan
    assert [str(step.deployment) for step in plan.steps if isinstance(step, Deploy)] == ["/who/myfoo 0"]
    assert not [step for step in plan.steps if isinstance(step, Undeploy)]

"""The log of an agent: a real agent process, a real ZooKeeper."""

import json
import signal

import pytest

from support.agents import AgentHost, Fleet, put_script
from support.waiting import wait_until


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    return fleet.ready_host()


def lines(host: AgentHost) -> list[dict[str, object]]:
    return [json.loads(line) for line in host.log.read_text().splitlines()]


def test_every_log_line_names_the_host_and_during_a_deployment_its_revision_and_step(fleet, host):
    host.fail("/who/myfoo 0")
    with host.process("--verbose") as agent:
        host.wait_for_error()
        host.block()
        (host.root / "fail").unlink()
        fleet.set_version("r2")
        wait_until(lambda: len(fleet.calls()) == 3, "the script runs")
        fleet.client.delete("/hosts/h1")
        (host.root / "block").unlink()
        host.wait_for_version("r2")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0
    entries = lines(host)
    assert {line.get("host") for line in entries} == {"h1.example.com (h1)"}
    begins = [place for place, line in enumerate(entries) if line["event"] == "deployment-started"]
    failed = next(place for place, line in enumerate(entries) if line["event"] == "deployment-failed")
    done = next(place for place, line in enumerate(entries) if line["event"] == "deployment-succeeded")
    parts = {"r1": entries[begins[0] : failed + 1], "r2": entries[begins[-1] : done + 1]}
    for revision, part in parts.items():
        assert {line.get("revision") for line in part} == {revision}
        at_work = [
            line
            for line in part
            if line["event"] in {"step", "script-printed", "script-failed", "script-completed"}
        ]
        assert {"step", "script-printed"} < {str(line["event"]) for line in at_work}
        assert {(line.get("step"), line.get("deployment")) for line in at_work} == {
            ("change packages", None),
            ("deploy /who/myfoo 0", "/who/myfoo 0"),
        }
    (error,) = [line for line in parts["r1"] if line["event"] == "deployment-error"]
    assert error["step"] == "deploy /who/myfoo 0"
    assert "Traceback" in str(error["exception"])


def test_a_secret_of_a_script_appears_neither_in_the_log_nor_in_zookeeper(fleet, host):
    put_script(host.root, "foo", "#!/bin/sh\necho password=hunter2; echo https://ann:hunter2@h/x; exit 1\n")
    with host.process("--verbose"):
        host.wait_for_error()
    assert "password=***" in host.log.read_text()
    assert "hunter2" not in host.log.read_text()
    assert "hunter2" not in json.dumps([host.node, fleet.get("/zkdeployment/stops/h1")])

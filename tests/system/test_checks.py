"""Checks in a sandbox: from documents beside the tree to a real Nagios, and its results back to the service."""

import json
import re
import shutil
import socket

import httpx
import pytest

from support.sandboxes import build_rpm
from support.waiting import wait_until
from zkdeployment.nagios.status_file import read_status_file

pytestmark = pytest.mark.timeout(400)

TREE = """\
/demo
  /front : front
    version = '1'
    port = {port}
    greeting = {greeting!r}
    /deploy
      {deploy}
"""

CHECKS = """\
schema: zkdeployment/MonitoringSystem/v1
metadata: {name: nagios1}
data: {}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: port}
data:
  object: /demo
  monitoring: nagios1
  interval: 1
  check: {command: check_tcp, arguments: ["-H", "127.0.0.1", "-p", "{property.port}"]}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: greeting}
data:
  object: /demo
  monitoring: nagios1
  interval: 1
  check: {command: check_dummy, arguments: ["1", "{host.name} {property.greeting}"]}
"""

WRONG = """\
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: wrong}
data:
  object: /demo
  monitoring: nagios1
  check: {command: check_nothing}
"""

HOSTILE = "!$USER1$;{}`id`'\\"


class MonitoredFleet:
    """A sandbox with a Nagios, seen from its files and from the service."""

    def __init__(self, box) -> None:
        self.box = box
        self.place = box.directory / "nagios"
        key = (self.place / "key").read_text().strip()
        self.api = httpx.Client(base_url=box.status["server"]["url"], auth=("nagios1", key), timeout=20)

    def push(self, checks=CHECKS, port=1, greeting="hi", deploy="/host1"):
        text = TREE.format(port=port, greeting=greeting, deploy=deploy)
        return self.box.push(text, more={"checks.yaml": checks})

    def files(self):
        return {file.name: file.read_bytes() for file in (self.place / "objects").iterdir() if file.name[0] != "."}

    def outputs(self):
        """Return the outputs of the checks in Nagios, with their states."""
        try:
            status = read_status_file((self.place / "status.dat").read_text())
        except FileNotFoundError:
            return []
        return sorted(f"{result.state}: {result.output}" for result in status.results.values())

    def active(self):
        return self.api.get("/deployments/monitoring/nagios1/active").json()["deploymentsList"]

    def answers(self):
        """Return what the bridge has answered: instance, outcome, and whether the check was removed."""
        lines = [json.loads(line) for line in (self.place / "bridge.log").read_text().splitlines()]
        return [
            (line["instance"], line["outcome"], line["removed"])
            for line in lines
            if line["event"] == "check-answered"
        ]


@pytest.fixture(scope="module")
def fleet(make_box, tmp_path_factory):
    box = make_box("checks")
    box.up("--hosts", "2", "--nagios")
    box.sandbox("rpm", build_rpm(tmp_path_factory.mktemp("rpms"), "front", "1", script="#!/bin/sh\n"))
    monitored = MonitoredFleet(box)
    yield monitored
    monitored.api.close()


@pytest.fixture
def ports():
    """Yield two ports that accept connections."""
    with socket.create_server(("127.0.0.1", 0)) as old, socket.create_server(("127.0.0.1", 0)) as new:
        yield old.getsockname()[1], new.getsockname()[1]


def test_checks_follow_a_service_through_its_life(fleet, ports):
    old, new = ports
    assert set(fleet.box.status["nagios"]) == {"pid", "bridge"}
    assert None not in fleet.box.status["nagios"].values()

    # A service is deployed, and its checks appear; hostile values stay values.
    fleet.push(port=old, greeting=HOSTILE)
    wait_until(lambda: len(fleet.outputs()) == 2, "both checks have results")
    first, second = fleet.outputs()
    assert re.fullmatch(rf"ok: TCP OK - .* second response time on 127.0.0.1 port {old}", first)
    shown = HOSTILE.replace(";", ":")  # Nagios writes each semicolon of an output so
    assert second == f"warning: WARNING: host1.sandbox {shown}"
    wait_until(lambda: len(fleet.active()) == 2, "the service knows both checks as active")
    answered = fleet.answers()
    assert [answer[1:] for answer in answered] == [("success", False)] * 2

    # The port changes: the old check goes before the new one comes, and the other check is not touched.
    fleet.push(port=new, greeting=HOSTILE)
    wait_until(lambda: any(f"port {new}" in output for output in fleet.outputs()), "the new port is checked")
    wait_until(lambda: len(fleet.active()) == 2, "both checks are active again")
    (removed, *rest), (added, *others) = fleet.answers()[2:]
    assert (removed, rest, others) == (added, ["success", True], ["success", False])

    # A wrong command is answered with the reason, and all other checks stay.
    before = fleet.files()
    fleet.push(CHECKS + WRONG, port=new, greeting=HOSTILE)
    wait_until(lambda: len(fleet.answers()) == 5, "the wrong check is answered")
    assert fleet.answers()[-1][1] == "failed"
    assert "Nagios has no plugin check_nothing" in (fleet.place / "bridge.log").read_text()
    assert (fleet.files(), len(fleet.active())) == (before, 2)


def test_nagios_and_its_bridge_are_killed_and_find_a_wiped_directory(fleet, ports):
    fleet.push(port=ports[0])
    wait_until(lambda: any(f"port {ports[0]}" in output for output in fleet.outputs()), "the checks are there")
    wait_until(lambda: len(fleet.active()) == 2, "the checks are active")
    files = fleet.files()
    assert fleet.box.sandbox("stop", "nagios", "--kill").returncode == 0
    assert fleet.box.status["nagios"] == {"pid": None, "bridge": None}
    shutil.rmtree(fleet.place / "objects")
    started = fleet.box.sandbox("start", "nagios")
    assert (started.returncode, started.stderr) == (0, "")
    wait_until(lambda: (fleet.place / "objects").exists() and fleet.files() == files, "the files are back")
    wait_until(lambda: len(fleet.outputs()) == 2, "the checks run again")


def test_the_checks_of_a_service_that_is_removed_are_removed_with_it(fleet):
    fleet.push(deploy="/host2")
    wait_until(
        lambda: any("host2.sandbox" in output for output in fleet.outputs()), "the checks follow the service"
    )
    wait_until(lambda: not any("host1.sandbox" in output for output in fleet.outputs()), "the old ones are gone")
    fleet.box.push("/demo\n", more={"checks.yaml": CHECKS})
    wait_until(lambda: fleet.active() == [] and fleet.files() == {}, "no check is left")
    wait_until(lambda: fleet.outputs() == [], "Nagios has no check")

"""Checks in a sandbox: from documents beside the tree to a real Nagios, and its results back to the service."""

import contextlib
import json
import re
import shutil
import socket
import socketserver
import subprocess
import threading

import httpx
import pytest

from support.hosts.rpms import build_rpm
from support.waiting import wait_until
from zkdeployment.checks.nagios.files import read_status_file

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

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

#: A service whose version 2 ends what its check connects to; its other check is another one in each version.
SHOP = """\
/shop
  /web : web
    version = {version!r}
    socket = {socket!r}
    /deploy
      /host1
"""

SHOP_CHECKS = """\
schema: zkdeployment/MonitoringSystem/v1
metadata: {name: nagios1}
data: {}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: socket}
data:
  object: /shop
  monitoring: nagios1
  interval: 1
  check: {command: check_tcp, arguments: ["-H", "{property.socket}"]}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: version}
data:
  object: /shop
  monitoring: nagios1
  interval: 1
  check: {command: check_dummy, arguments: ["0", "version {property.version}"]}
"""

SHOP_STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  on_failure: rollback
  groups:
    - name: all
      critical: true
      depends_on: []
      selectors: []
      success_criteria: {percent_successful_nodes: 100}
      bake_time: 10
      healthy_checks: true
"""

#: The deployment scripts: that of version 2 succeeds, too, but nothing listens then.
SHOP_SCRIPTS = {"1": 'ln -sfn "$shared/listening" "$shared/service"', "2": 'rm -f "$shared/service"'}

HOSTILE = "!$USER1$;{}`id`'\\"


class MonitoredFleet:
    """A sandbox with a Nagios, seen from its files and from the service."""

    def __init__(self, box) -> None:
        self.box = box
        self.place = box.directory / "nagios"
        key = (self.place / "key").read_text().strip()
        self.api = httpx.Client(base_url=box.status["server"]["url"], auth=("nagios1", key), timeout=None)

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

    def json(self, *arguments):
        """Return the output of a verb with ``-o json``."""
        done = self.box.zkdeployment(*arguments, "-o", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def checks(self):
        """Return the check instances on host1 by check: their state, the state of the result, and the output."""
        instances = self.json("checks", "instances", "--host", "host1")["instances"]
        return {
            found["check"]: (found["state"], found["result"]["state"], found["result"]["output"])
            for found in instances
            if found["result"] is not None and not found["deleted"]
        }

    def rollout(self, revision):
        """Return the newest rollout of a revision; ``None`` if it does not exist."""
        done = self.box.zkdeployment("history", "show", revision, "-o", "json")
        rollouts = json.loads(done.stdout)["rollouts"] if done.returncode == 0 else []
        return rollouts[-1] if rollouts else None

    def ended(self, revision):
        """Whether the newest rollout of a revision has ended."""
        found = self.rollout(revision)
        return found is not None and found["ended"] is not None

    def tip(self):
        """Return the revision at the tip of the branch."""
        run = ["git", "--git-dir", self.box.status["tree"], "rev-parse", "main"]
        return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()

    def answers(self):
        """Return the answers of the bridge: instance, outcome, and whether the check was removed."""
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
    wait_until(lambda: len(fleet.answers()) == 4, "the bridge has answered both changes")
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


@pytest.fixture
def shop(fleet, tmp_path):
    """Yield a function that pushes a version of a service, which listens on a socket while version 1 runs."""
    script = '#!/bin/sh\n[ "$1" != -u ] || exit 0\nshared=$ZKDEPLOYMENT_ROOT/../../..\n{}\n'
    packages = [
        build_rpm(tmp_path, "web", version, script=script.format(act)) for version, act in SHOP_SCRIPTS.items()
    ]
    assert fleet.box.sandbox("rpm", *packages).returncode == 0
    directory = fleet.box.directory

    def push(version):
        tree = SHOP.format(version=version, socket=str(directory / "service"))
        return fleet.box.push(tree, f"web {version}", {"checks.yaml": SHOP_CHECKS, "strategy.yaml": SHOP_STRATEGY})

    with listening(directory / "listening"):
        yield push


@contextlib.contextmanager
def listening(path):
    """Accept connections on a Unix socket."""
    with socketserver.UnixStreamServer(str(path), socketserver.BaseRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def assert_good(checks, service):
    """Fail unless all checks are active and OK with version 1."""
    assert {name: found[:2] for name, found in checks.items()} == dict.fromkeys(
        ("socket", "version"), ("active", "ok")
    )
    assert re.fullmatch(rf"TCP OK - .* second response time on socket {service}", checks["socket"][2])
    assert checks["version"][2] == "OK: version 1"


def test_a_check_that_goes_critical_after_a_deployment_holds_its_rollout_and_takes_it_back(fleet, shop):
    service = fleet.box.directory / "service"

    # The rollout of a good version succeeds once its new checks run and are OK.
    good = shop("1")
    wait_until(lambda: fleet.ended(good), "the rollout of the good version ends")
    assert fleet.rollout(good)["state"] == "success", fleet.rollout(good)
    assert_good(fleet.checks(), service)

    # The script of the bad version succeeds, but then a check goes critical: the rollout waits.
    bad = shop("2")
    critical = ("active", "critical", f"connect to file socket {service}: No such file or directory")
    wait_until(lambda: fleet.checks().get("socket") == critical, "the check goes critical")
    why = fleet.box.zkdeployment("why", "host1").stdout
    assert f"  critical: socket of /shop/web 0: {critical[2]}" in why.splitlines()
    assert fleet.tip() == bad

    # The rollout fails because of the check, and the coordinator takes the version back.
    wait_until(lambda: fleet.ended(bad), "the rollout of the bad version ends")
    failed = fleet.rollout(bad)
    assert failed["state"] == "failed"
    (reason,) = failed["errors"].values()
    assert reason.startswith("check socket of /shop/web 0 is critical: connect to file socket ")
    wait_until(lambda: fleet.tip() != bad, "the coordinator commits the rollback")
    rollback = fleet.tip()
    difference = ["git", "--git-dir", fleet.box.status["tree"], "diff", "--exit-code", good, rollback]
    assert subprocess.run(difference, check=False, capture_output=True).returncode == 0

    # The rollback is published and rolled out, and its checks decide as well.
    wait_until(lambda: fleet.ended(rollback), "the rollout of the rollback ends")
    assert fleet.rollout(rollback)["state"] == "success", fleet.rollout(rollback)
    assert_good(fleet.checks(), service)
    converged = fleet.box.wait(rollback)
    assert converged.returncode == 0, converged.stdout + converged.stderr

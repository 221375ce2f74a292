"""The manual's bridge for another monitoring system, with a real service and real plugins."""

import json
import subprocess
import sys

import pytest

from support.checks.monitoring import ServedMonitoringService
from support.checks.nagios import make_details, make_key
from support.manual import HERE
from support.service import running_service
from support.waiting import wait_until
from zkdeployment.sandbox.nagios import find_nagios

BRIDGE = HERE / "etc" / "manual" / "examples" / "api" / "bridge.py"


@pytest.fixture
def service(zookeeper):
    with running_service(zookeeper) as running:
        yield ServedMonitoringService(running)


@pytest.fixture
def start(service, tmp_path):
    """Return a function that starts the bridge with its directory of checks."""
    checks = tmp_path / "checks"
    checks.mkdir()
    (tmp_path / "key").write_text(f"{service.key}\n")
    started = []

    def begin():
        argv = [BRIDGE, service.url, service.user, tmp_path / "key", checks, find_nagios().plugins]
        started.append(subprocess.Popen([sys.executable, *argv]))
        return started[-1], checks

    yield begin
    for process in started:
        process.kill()
        process.wait()


def want(service, name, command, *arguments):
    details = make_details(name, "h1", command, *arguments)
    return service.want(make_key(details), details)


def test_the_bridge_rolls_out_changes_and_removes_checks_and_reports_results(service, start):
    process, checks = start()
    good = want(service, "good", "check_dummy", "1", "$USER1$; it's\n{}")
    bad = want(service, "bad", "check_nothing")
    wait_until(lambda: service.state(good).value == "active", "the check is active")
    wait_until(lambda: service.result(good) is not None, "there is a result")
    assert service.result(good) == ("warning", "WARNING: $USER1$; it's\n{}")
    wait_until(lambda: service.state(bad).value == "rollout_failed", "the other one failed")
    assert service.reason(bad) == "there is no plugin check_nothing"

    want(service, "good", "check_dummy", "2")
    wait_until(lambda: service.state(good).value == "deprovisioned", "the old version is gone")
    process.kill()
    process.wait()
    service.turn()
    assert [*checks.iterdir()] == []
    process, _ = start()
    wait_until(lambda: service.state(good).value == "active", "the new version is active")

    process.kill()
    process.wait()
    details = json.loads((checks / good).read_text())
    (checks / good).write_text(json.dumps(details | {"config_id": "c9", "arguments": ["0"]}))
    start()
    wait_until(
        lambda: json.loads((checks / good).read_text()) == details, "a bridge that starts writes what differs"
    )
    service.delete(good)
    service.turn()
    wait_until(lambda: not (checks / good).exists(), "the check is removed")
    wait_until(lambda: service.state(good).value == "deprovisioned", "its removal is answered")

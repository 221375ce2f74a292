"""Agents on hosts where other programs change packages concurrently."""

import pytest
from structlog.testing import capture_logs

from support.agents import AgentHost, Fleet
from support.hosts.packages import CATALOGUE, FakePackageManager
from support.hosts.rpm_hosts import RpmHost
from support.waiting import wait_until


class Disturbed:
    """A package manager before each of whose next ``times`` commits another program changes packages."""

    def __init__(self, manager, disturb, times) -> None:
        self.manager = manager
        self.commits = 0
        self._disturb = disturb
        self._times = times

    def __getattr__(self, name: str) -> object:
        return getattr(self.manager, name)

    def commit(self, transaction):
        if self.commits < self._times:
            self._disturb(self.commits)
        self.commits += 1
        self.manager.commit(transaction)


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    return fleet.ready_host(version="1.1")


def test_an_outdated_package_change_is_prepared_again(fleet, host, tmp_path, rpm_repository):
    (tmp_path / "rpm").mkdir()
    rpm = RpmHost(tmp_path / "rpm", rpm_repository)
    rpm.put("foo", "1.0")
    others = [("bar", "1.0"), ("foo", "1.4")]
    host.packages = Disturbed(rpm.manager, lambda number: rpm.put(*others[number]), times=2)
    with capture_logs() as logs, host.agent():
        host.wait_for_version("r1")
    assert rpm.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}
    assert host.packages.commits == 3
    assert [line["event"] for line in logs].count("packages-prepared-anew") == 2
    assert fleet.version == "r1"


def test_a_program_that_keeps_changing_packages_stops_the_fleet_eventually(fleet, host):
    fake = FakePackageManager(CATALOGUE)
    others = [offer.package for offer in CATALOGUE if offer.name != "foo"]
    host.packages = Disturbed(fake, lambda number: fake.put(others[number]), times=len(others))
    with host.agent():
        wait_until(lambda: "error" in host.node, "the failure")
        assert "another program changed packages" in host.node["error"]
    assert fleet.version is None
    assert host.packages.commits == 4


def test_a_permanently_failed_package_change_is_not_tried_again(fleet, host):
    fake = FakePackageManager(CATALOGUE)
    fleet.service("/who/myfoo", "last-aid", "2.0", h1=1)
    host.packages = Disturbed(fake, lambda _: None, times=0)
    with host.agent():
        wait_until(lambda: "error" in host.node, "the failure")
    assert host.packages.commits == 1

"""Role controllers that are checkouts: real ZooKeeper, git, RPMs, scripts and files."""

import json
import signal
from pathlib import Path

import pytest

from support.agents import CONTROLLER_SCRIPT, AgentHost, Fleet, called
from support.repository import Repository
from support.waiting import wait_until
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.machine import process

BUILD = """\
#!/bin/sh
test ! -e fail-build || { echo "cannot build this" >&2; exit 7; }
echo "$PWD $ZKDEPLOYMENT_VERSION" >> built
"""

START = "starting-deployments /roles/web"
END = "ending-deployments /roles/web"


ROUND = called(START, "/who/myfoo 0", END)


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    fleet.service("/who/myfoo", "foo", "1.0", web=1)
    return fleet.host("h1", role="web")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "controllers")
    scripts = [f"bin/{name}" for name in ("starting-deployments", "ending-deployments")]
    repository.write({"stage-build": BUILD, "release": "1"} | dict.fromkeys(scripts, CONTROLLER_SCRIPT))
    for name in ("stage-build", *scripts):
        (repository.directory / name).chmod(0o755)
    repository.commit({})
    repository.git("tag", "1")
    repository.commit({"release": "2"})
    return repository


def want(fleet: Fleet, package: str, version: str, revision: str) -> None:
    fleet.controller("web", package, version)
    fleet.set_version(revision)


def reach(fleet: Fleet, host: AgentHost, package: str, version: str, revision: str) -> None:
    want(fleet, package, version, revision)
    wait_until(lambda: host.has_finished(revision), revision)


def managed(host: AgentHost) -> list[str]:
    return sorted(json.loads((host.root / "var/lib/zkdeployment/managed.json").read_text()))


def test_a_controller_is_checked_out_built_for_every_revision_changed_and_removed(fleet, host, repository):
    ctl = host.root / "opt/ctl"
    branch = f"git:{repository.url}#main"
    with host.agent():
        reach(fleet, host, "ctl", branch, "r1")
        assert (ctl / "built").read_text() == f"{ctl} r1\n"
        repository.commit({"release": "3"})
        reach(fleet, host, "ctl", branch, "r2")
        assert (ctl / "release").read_text() == "3"
        assert (ctl / "built").read_text() == f"{ctl} r1\n{ctl} r2\n"
        reach(fleet, host, "ctl", f"git://{repository.url}#1", "r3")
        assert (ctl / "release").read_text() == "1"
        assert (ctl / "built").read_text() == f"{ctl} r3\n"
        reach(fleet, host, "ctl2", branch, "r4")
        assert host.software == ["ctl2", "foo"]
        assert fleet.calls() == ROUND * 4
        fleet.remove("/roles/web")
        fleet.set_version("r5")
        host.wait_for_version("r5")
    assert host.software == ["foo"]
    assert fleet.calls() == [*ROUND * 4, *called("/who/myfoo 0")]
    assert managed(host) == ["foo"]
    assert fleet.requests("web") == []


def test_a_controller_is_checked_out_before_undeployments_and_before_the_lock_request(fleet, host, repository):
    fleet.service("/who/old", "bar", "1.0", web=1)
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        fleet.remove("/who/old")
        block = host.block()
        want(fleet, "ctl", f"git:{repository.url}#1", "r2")
        wait_until(lambda: fleet.calls()[-1] == "h1 start -u /who/old 0", "the old deployment goes")
        assert (host.root / "opt/ctl/built").exists()
        assert fleet.requests("web") == []
        block.unlink()
        host.wait_for_version("r2")
    assert fleet.calls()[-8:] == [*called("-u /who/old 0"), *ROUND]


def test_a_controller_checkout_and_packages_replace_each_other(fleet, host, repository):
    checkout = f"git:{repository.url}#1"
    turns = [("ctl", "1.0"), ("ctl", checkout), ("ctl", "2.0"), ("ctl2", checkout), ("ctl", "1.0")]
    with host.agent():
        for number, (package, version) in enumerate(turns, 1):
            reach(fleet, host, package, version, f"r{number}")
            assert host.software == sorted([package, "foo"])
            packaged = [] if version == checkout else [package]
            assert sorted(host.packages.installed()) == managed(host) == sorted(["foo", *packaged])
            assert (host.root / "opt" / package / "release").exists() == (version == checkout)
    assert fleet.calls() == ROUND * 5


@pytest.mark.nightly
def test_real_packages_of_a_controller_are_replaced_by_a_checkout_and_restored(
    fleet, host, repository, rpm_repository
):
    host.packages = Dnf(host.root, (str(rpm_repository.definitions),))
    fleet.remove("/who")

    def installed() -> str:
        command = ["rpm", "--root", str(host.root), "--dbpath", "/var/lib/rpm", "-qa", "foo"]
        return process.run(command).check().stdout

    with host.agent():
        want(fleet, "foo", "1.0", "r1")
        assert "the role controller foo has no script starting-deployments" in host.wait_for_error()
        assert installed().startswith("foo-1.0")
        reach(fleet, host, "foo", f"git:{repository.url}#1", "r2")
        assert installed() == ""
        assert (host.root / "opt/foo/release").read_text() == "1"
        assert not (host.root / "opt/foo/version").exists()
        want(fleet, "foo", "1.0", "r3")
        assert "the role controller foo has no script starting-deployments" in host.wait_for_error()
    assert installed().startswith("foo-1.0")
    assert [path.name for path in (host.root / "opt/foo").iterdir()] == ["version"]
    assert managed(host) == ["foo"]


def test_a_failed_checkout_stops_the_fleet_before_any_change(fleet, host, repository):
    with host.agent():
        reach(fleet, host, "ctl", "1.0", "r1")
        fleet.service("/who/old", "bar", "1.0")
        want(fleet, "ctl", f"git:{repository.url}#9", "r2")
        assert "has no tag, branch or commit 9" in host.wait_for_error()
    assert fleet.version is None
    assert sorted(host.packages.installed()) == ["ctl", "foo"]
    assert fleet.calls() == ROUND


def test_a_failed_build_stops_the_fleet_and_keeps_the_previous_checkout(fleet, host, repository):
    branch = f"git:{repository.url}#main"
    with host.agent():
        reach(fleet, host, "ctl", branch, "r1")
        repository.commit({"fail-build": "", "release": "3"})
        want(fleet, "ctl", branch, "r2")
        assert host.wait_for_error() == f"{host.root}/opt/ctl/stage-build failed with exit status 7"
        assert fleet.version is None
        assert (host.root / "opt/ctl/release").read_text() == "2"
        assert fleet.calls() == ROUND
        repository.commit({"fail-build": None})
        reach(fleet, host, "ctl", branch, "r3")
    assert (host.root / "opt/ctl/release").read_text() == "3"
    assert fleet.calls() == ROUND * 2


def test_deployments_of_the_same_software_stop_the_fleet_before_they_lose_their_script(fleet, host, repository):
    fleet.set_version("r1")
    with host.agent():
        host.wait_for_version("r1")
        fleet.remove("/who")
        want(fleet, "foo", f"git:{repository.url}#1", "r2")
        assert "/opt/foo is no checkout with deployments" in host.wait_for_error()
        assert host.markers == ["who:myfoo.0.deployed"]
        fleet.remove("/roles/web")
        fleet.set_version("r3")
        host.wait_for_version("r3")
        reach(fleet, host, "foo", f"git:{repository.url}#1", "r4")
    assert fleet.calls()[2:] == called("-u /who/myfoo 0", START, END)


def test_a_dry_run_lists_the_checkouts(fleet, host, repository):
    version = f"git:{repository.url}#1"
    want(fleet, "ctl", version, "r1")
    done = host.command("--dry-run")
    first, second, *_ = done.stdout.splitlines()
    assert first == f"1. check out /opt/ctl ({version}): new"
    assert second == f"2. {START} (ctl {version}): before the deployments"
    assert not (host.root / "opt").exists()


@pytest.mark.parametrize(
    "point",
    [
        *(pytest.param(point, marks=pytest.mark.nightly) for point in ("after:fetch", "before:build")),
        "after:check-out",
        pytest.param("after:role-lock", marks=pytest.mark.nightly),
    ],
)
def test_an_agent_completes_the_controller_change_of_a_killed_agent(fleet, host, repository, point):
    fleet.remove("/who")
    want(fleet, "ctl", f"git:{repository.url}#1", "r1")
    assert host.command("--run-once").returncode == 0
    want(fleet, "ctl", f"git:{repository.url}#main", "r2")
    with host.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
        assert (host.root / "opt/ctl/bin/starting-deployments").exists()
    with host.process():
        host.wait_for_version("r2")
    assert (host.root / "opt/ctl/release").read_text() == "2"
    assert host.software == ["ctl"]
    assert fleet.calls() == called(START, END, START, END)
    assert fleet.requests("web") == []

"""Agents whose software is checked out: real ZooKeeper, git, Subversion, scripts and files."""

import json
import os
import signal
from pathlib import Path

import pytest

from support.agents import SCRIPT, AgentHost, Fleet
from support.repository import Repository, Subversion
from support.waiting import wait_until
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.machine import process

BUILD = """\
#!/bin/sh
test ! -e fail-build || { echo "cannot build this" >&2; exit 7; }
echo "$PWD $ZKDEPLOYMENT_VERSION" >> built
"""

DEPLOYED = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]
UNDEPLOYED = ["h1 start -u /who/myfoo 0", "h1 end -u /who/myfoo 0"]


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    return fleet.host("h1")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    repository.write({"bin/zookeeper-deploy": SCRIPT, "stage-build": BUILD, "release": "1"})
    for name in ("bin/zookeeper-deploy", "stage-build"):
        (repository.directory / name).chmod(0o755)
    repository.commit({})
    repository.git("tag", "1")
    repository.commit({"release": "2"})
    repository.git("tag", "2")
    return repository


def want(fleet: Fleet, version: str | None, revision: str) -> None:
    fleet.service("/who/myfoo", "foo", version, h1=1)
    fleet.set_version(revision)


def reach(fleet: Fleet, host: AgentHost, version: str | None, revision: str) -> None:
    want(fleet, version, revision)
    wait_until(lambda: host.has_finished(revision), revision)


def built(host: AgentHost) -> list[str]:
    return (host.root / "opt/foo/built").read_text().splitlines()


def test_a_service_is_checked_out_built_deployed_updated_and_removed(fleet, host, repository):
    version = f"git:{repository.url}#main"
    foo = host.root / "opt/foo"
    with host.agent():
        reach(fleet, host, version, "r1")
        assert (foo / "release").read_text() == "2"
        assert (foo / ".zkdeployment-version").read_text().strip() == version
        assert built(host) == [f"{foo} r1"]
        marker = json.loads((host.root / "etc/foo/who:myfoo.0.deployed").read_text())
        assert (marker["package"], marker["version"]) == ("foo", version)
        repository.commit({"release": "3"})
        reach(fleet, host, version, "r2")
        assert (foo / "release").read_text() == "3"
        assert built(host) == [f"{foo} r1", f"{foo} r2"]
        reach(fleet, host, f"git://{repository.url}#1", "r3")
        assert (foo / "release").read_text() == "1"
        assert built(host) == [f"{foo} r3"]
        assert host.software == ["foo"]
        fleet.remove("/who")
        fleet.set_version("r4")
        host.wait_for_version("r4")
    assert fleet.calls() == [*DEPLOYED * 3, *UNDEPLOYED]
    assert host.software == []
    assert not (host.root / "etc/foo").exists()
    assert host.packages.commits == []


def test_a_checkout_of_another_version_control_system_replaces_a_checkout(fleet, host, repository, tmp_path):
    subversion = Subversion(tmp_path / "subversion")
    subversion.commit({"trunk/zookeeper-deploy": SCRIPT}, executable=("trunk/zookeeper-deploy",))
    with host.agent():
        reach(fleet, host, f"git:{repository.url}#1", "r1")
        reach(fleet, host, f"svn:{subversion.url}/trunk", "r2")
        reach(fleet, host, f"svn:{subversion.url}/trunk", "r3")
    assert sorted(path.name for path in (host.root / "opt/foo").iterdir()) == [
        ".svn",
        ".zkdeployment-version",
        "zookeeper-deploy",
    ]
    assert fleet.calls() == DEPLOYED * 3


def test_a_package_is_replaced_by_a_checkout_and_restored(fleet, host, repository):
    managed = host.root / "var/lib/zkdeployment/managed.json"
    with host.agent():
        reach(fleet, host, "1.0", "r1")
        (host.root / "opt/foo/left-over").touch()
        reach(fleet, host, f"git:{repository.url}#1", "r2")
        assert host.packages.installed() == {}
        assert json.loads(managed.read_text()) == {}
        assert not (host.root / "opt/foo/left-over").exists()
        assert (host.root / "opt/foo/release").read_text() == "1"
        reach(fleet, host, "2.0", "r3")
    assert [package.version for package in host.packages.installed()["foo"]] == ["2.0"]
    assert json.loads(managed.read_text()) == {"foo": "foo"}
    assert sorted(path.name for path in (host.root / "opt/foo").iterdir()) == ["bin"]
    assert fleet.calls() == DEPLOYED * 3


@pytest.mark.nightly
def test_real_packages_are_replaced_by_a_checkout_and_restored(fleet, host, repository, rpm_repository):
    host.packages = Dnf(host.root, (str(rpm_repository.definitions),))

    def installed() -> str:
        command = ["rpm", "--root", str(host.root), "--dbpath", "/var/lib/rpm", "-qa", "foo"]
        return process.run(command).check().stdout

    with host.agent():
        want(fleet, "1.0", "r1")
        assert "foo has no deploy script" in host.wait_for_error()
        assert installed().startswith("foo-1.0")
        reach(fleet, host, f"git:{repository.url}#1", "r2")
        assert installed() == ""
        assert (host.root / "opt/foo/release").read_text() == "1"
        assert not (host.root / "opt/foo/version").exists()
        want(fleet, "1.0", "r3")
        assert "foo has no deploy script" in host.wait_for_error()
    assert installed().startswith("foo-1.0")
    assert [path.name for path in (host.root / "opt/foo").iterdir()] == ["version"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("git:{url}#9", "has no tag, branch or commit 9"),
        ("git:{url}-missing#1", "does not exist"),
        ("svn:file://{url}/no-svn", "no-svn"),
        ("git:{url}", "expected git://REPO#VERSION, found no #"),
        ("hg:{url}#1", "unknown scheme 'hg'"),
    ],
)
def test_a_failed_checkout_stops_the_fleet_before_any_change(fleet, host, repository, version, message):
    with host.agent():
        reach(fleet, host, "1.0", "r1")
        want(fleet, version.format(url=repository.url), "r2")
        assert message in host.wait_for_error()
    assert fleet.version is None
    assert "foo" in host.packages.installed()
    assert host.software in (["foo"], [".zkdeployment", "foo"])
    assert fleet.calls() == DEPLOYED


def test_a_failed_build_stops_the_fleet_and_keeps_the_previous_checkout(fleet, host, repository):
    with host.agent():
        reach(fleet, host, f"git:{repository.url}#1", "r1")
        repository.commit({"fail-build": ""})
        want(fleet, f"git:{repository.url}#main", "r2")
        assert host.wait_for_error() == f"{host.root}/opt/foo/stage-build failed with exit status 7"
        assert fleet.version is None
        assert (host.root / "opt/foo/release").read_text() == "1"
        assert fleet.calls() == DEPLOYED
        repository.commit({"fail-build": None, "release": "mended"})
        reach(fleet, host, f"git:{repository.url}#main", "r3")
    assert (host.root / "opt/foo/release").read_text() == "mended"
    assert host.software == ["foo"]
    (log,) = [
        path for path in (host.root / "var/log/zkdeployment").glob("*build*") if "cannot" in path.read_text()
    ]
    assert log.name.endswith("-build-foo.log")


def test_a_checkout_of_a_services_user_is_updated_and_undeployed_without_programs_of_that_user(
    fleet, host, repository
):
    foo = host.root / "opt/foo"

    def give_away() -> None:
        (foo / "bin/zookeeper-deploy").write_text("#!/bin/sh\ntouch $ZKDEPLOYMENT_ROOT/evil\n")
        for path in (foo, *foo.rglob("*"), host.root / "etc/foo"):
            os.chown(path, 65534, 65534, follow_symlinks=False)

    with host.agent():
        reach(fleet, host, f"git:{repository.url}#main", "r1")
        give_away()
        repository.commit({"release": "3"})
        reach(fleet, host, f"git:{repository.url}#main", "r2")
        assert (foo / "release").read_text() == "3"
        give_away()
        fleet.remove("/who")
        fleet.set_version("r3")
        host.wait_for_version("r3")
    assert fleet.calls() == [*DEPLOYED * 2, *UNDEPLOYED]
    assert not (host.root / "evil").exists()


def test_an_unmanaged_directory_is_not_replaced(fleet, host, repository):
    (host.root / "opt/foo").mkdir(parents=True)
    (host.root / "opt/foo/precious").touch()
    with host.agent():
        want(fleet, f"git:{repository.url}#1", "r1")
        error = host.wait_for_error()
        assert "is in the way: expected a checkout or a managed package, found neither; move it away" in error
    assert (host.root / "opt/foo/precious").exists()


def test_checkouts_can_be_restricted_and_disabled(fleet, repository):
    for host_id, sources, message in (
        ("h1", "none", "is not allowed on this host: expected one of checkout-sources (none)"),
        ("h2", "https://git.example.com/", "expected one of checkout-sources (https://git.example.com/)"),
    ):
        host = fleet.host(host_id, checkout_sources=sources)
        fleet.service("/who/myfoo", "foo", f"git:{repository.url}#1", **{host_id: 1})
        fleet.set_version(f"r-{host_id}")
        with host.agent():
            assert message in host.wait_for_error()
    host = fleet.host("h3", checkout_sources=f"https://git.example.com/ {repository.directory.parent}/")
    fleet.service("/who/myfoo", "foo", f"git:{repository.url}#1", h3=1)
    fleet.set_version("r-h3")
    with host.agent():
        wait_until(lambda: host.has_finished("r-h3"), "r-h3")


def test_a_dry_run_lists_the_checkouts_and_changes_nothing(fleet, host, repository):
    version = f"git:{repository.url}#1"
    want(fleet, version, "r1")
    done = host.command("--dry-run")
    assert done.stdout.splitlines() == [
        f"1. check out /opt/foo ({version}): new",
        f"2. deploy /who/myfoo 0 (foo {version}): new",
    ]
    assert not (host.root / "opt").exists()


@pytest.mark.parametrize(
    "point",
    [
        "before:fetch",
        "after:fetch",
        "before:check-out",
        "before:build",
        "before:drop-replaced",
        "after:check-out",
        "after:record",
    ],
)
def test_an_agent_completes_the_checkout_change_of_a_killed_agent(fleet, host, repository, point):
    want(fleet, f"git:{repository.url}#1", "r1")
    assert host.command("--run-once").returncode == 0
    want(fleet, f"git:{repository.url}#2", "r2")
    with host.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
        assert (host.root / "opt/foo/bin/zookeeper-deploy").exists()
    with host.process():
        host.wait_for_version("r2")
    assert (host.root / "opt/foo/release").read_text() == "2"
    assert built(host)[-1] == f"{host.root}/opt/foo r2"
    assert host.software == ["foo"]
    assert host.markers == ["who:myfoo.0.deployed"]


@pytest.mark.parametrize("point", ["before:remove-checkout", "after:remove-checkout"])
def test_an_agent_completes_the_checkout_removal_of_a_killed_agent(fleet, host, repository, point):
    want(fleet, f"git:{repository.url}#1", "r1")
    assert host.command("--run-once").returncode == 0
    fleet.remove("/who")
    fleet.set_version("r2")
    with host.process(failpoints=f"{point}=kill") as agent:
        assert agent.wait() == -signal.SIGKILL
    with host.process():
        host.wait_for_version("r2")
    assert host.software == []
    assert not (host.root / "etc/foo").exists()


def test_an_agent_waits_for_a_killed_agents_build_and_restores_the_previous_checkout(fleet, host, repository):
    want(fleet, f"git:{repository.url}#1", "r1")
    assert host.command("--run-once").returncode == 0
    script = '#!/bin/sh\ntouch "$ZKDEPLOYMENT_ROOT/building"\n'
    script += 'while [ -e "$ZKDEPLOYMENT_ROOT/block" ]; do sleep 0.02; done\n'
    repository.commit({"stage-build": script})
    want(fleet, f"git:{repository.url}#main", "r2")
    block = host.block()
    with host.process() as agent:
        wait_until((host.root / "building").exists, "the build")
        agent.kill()
        agent.wait()
    with host.process():
        wait_until(lambda: "orphaned-script-awaited" in host.log.read_text(), "it waits")
        assert (host.root / "opt/foo/stage-build").read_text() == script
        block.unlink()
        host.wait_for_version("r2")
    assert "checkout-restored" in host.log.read_text()
    assert host.software == ["foo"]


def test_a_role_controllers_scripts_bracket_the_checkout_and_its_build(fleet, repository):
    host = fleet.host("h1", role="web")
    fleet.controller("web", "ctl", "1.0")
    fleet.service("/who/myfoo", "foo", f"git:{repository.url}#1", web=1)
    fleet.set_version("r1")
    block = host.block()
    with host.agent():
        wait_until(fleet.calls, "the start script")
        assert host.software == [".zkdeployment", "ctl"]
        block.unlink()
        host.wait_for_version("r1")
        assert host.software == ["ctl", "foo"]
        assert built(host) == [f"{host.root}/opt/foo r1"]
        (first, *between, last) = fleet.calls()[1:]
        assert (first, last) == ("h1 end starting-deployments /roles/web", "h1 end ending-deployments /roles/web")
        assert between[:2] == DEPLOYED
        assert fleet.requests("web") == []

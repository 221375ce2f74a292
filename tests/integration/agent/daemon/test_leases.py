"""Hosts that can be leased: real agents, real ZooKeeper, real scripts and files."""

import json
import shutil
import signal
import stat

import pytest
from psutil import STATUS_STOPPED, Process

from support.agents import AgentHost, Fleet, called, put_script
from support.fleets.coordinated import ScriptedRollout
from support.waiting import wait_until
from zkdeployment.agent.rules.lease import TENANT_MARKER
from zkdeployment.pools.host import ssh_access

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGr0wLQxlKkTqcTZyRzFLq1o8dYwqkUQmfBwF0pGb1vF alice@laptop"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKk1p0oJt0N3fJb7dY4m3m5o1yQnTzqH3vQyq8mX2Zb4 bob@laptop"
OWN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN2xw3J0oX1mJkY9mG8a0d1n2b3v4c5x6z7l8k9j0h1g operators"

#: The directory of files that outlive a boot, in the root directory of a host.
LASTING = "var/lib/zkdeployment"


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    """A host that can be leased; hosts of the role ci run foo."""
    fleet.service("/who/myfoo", "foo", "1.0", ci=1)
    fleet.set_version("r1")
    return fleet.host("h1", role="lease:spare")


def wait_for_lease(host: AgentHost, role: str, number: int) -> None:
    wait_until(lambda: host.node.get("leased") == {"role": role, "number": number}, f"{role} {number}")


def keys(host: AgentHost) -> list[str]:
    file = host.root / "root/.ssh/authorized_keys"
    return file.read_text().splitlines() if file.exists() else []


def test_a_lease_changes_the_services_of_a_host_at_an_unchanged_revision_and_restores_them(fleet, host):
    with host.agent():
        host.wait_for_version("r1")
        assert (host.node["role"], host.node["lease"], fleet.calls()) == ("spare", "spare", [])
        wait_for_lease(host, "spare", 0)
        fleet.lease("h1", "ci", 7)
        wait_for_lease(host, "ci", 7)
        assert (host.node["role"], host.node["version"]) == ("ci", "r1")
        assert fleet.calls() == called("/who/myfoo 0")
        assert host.packages.installed().keys() == {"foo"}
        fleet.lease("h1", "ci", 8, KEY)
        wait_for_lease(host, "ci", 8)
        assert keys(host) == [TENANT_MARKER, KEY]
        fleet.lease("h1", "spare", 9)
        wait_for_lease(host, "spare", 9)
        assert fleet.calls() == called("/who/myfoo 0", "-u /who/myfoo 0")
        assert (host.packages.installed(), host.markers, keys(host)) == ({}, [], [])
        fleet.lease("h1", "ci", 10)
        wait_for_lease(host, "ci", 10)
        fleet.remove("/zkdeployment/pools/leases/h1")
        wait_for_lease(host, "spare", 0)
    assert (host.packages.installed(), fleet.version) == ({}, "r1")


def test_keys_are_added_to_other_keys_also_while_the_fleet_is_stopped_but_a_role_waits(fleet, host):
    file = host.root / "root/.ssh/authorized_keys"
    with host.agent():
        wait_for_lease(host, "spare", 0)
        file.parent.mkdir(parents=True, mode=0o755)
        file.write_text(OWN)
        fleet.set_version(None)
        fleet.lease("h1", "spare", 1, KEY)
        wait_for_lease(host, "spare", 1)
        assert keys(host) == [OWN, TENANT_MARKER, KEY]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        fleet.lease("h1", "ci", 2, OTHER)
        wait_until(lambda: keys(host) == [OWN], "the former key is removed at once")
        waits = "waits to take role ci (lease 2): the cluster is stopped"
        wait_until(lambda: host.node.get("step") == waits, waits)
        assert (host.node["leased"], fleet.calls()) == ({"role": "spare", "number": 1}, [])
        fleet.set_version("r1")
        wait_for_lease(host, "ci", 2)
    assert keys(host) == [OWN, TENANT_MARKER, OTHER]


def test_a_failure_of_a_leased_host_concerns_no_other_host_and_is_not_repeated(fleet, host):
    fleet.controller("ci", "ctl", "1.0")
    failing = host.fail("/who/myfoo 0")
    with host.agent():
        wait_for_lease(host, "spare", 0)
        fleet.lease("h1", "ci", 1)
        host.wait_for_error()
        assert "/who/myfoo 0 failed with exit status 3" in host.node["error"]
        assert (fleet.version, "leased" in host.node) == ("r1", False)
        wait_until(lambda: fleet.requests("ci") == [], "other hosts of the role continue")
        assert fleet.client.get_children("/zkdeployment/stops") == []
        calls = fleet.calls()
        fleet.set_version("r1", again=True)
        failing.unlink()
        fleet.lease("h1", "ci", 2)
        wait_for_lease(host, "ci", 2)
        assert fleet.calls()[len(calls) :] == called(
            "starting-deployments /roles/ci", "/who/myfoo 0", "ending-deployments /roles/ci"
        )
        assert "error" not in host.node
        host.fail("-u /who/myfoo 0")
        fleet.lease("h1", "spare", 3)
        host.wait_for_error()
    assert (fleet.version, host.node) == ("r1", {})


def test_a_host_that_fails_in_the_same_way_with_each_lease_reports_it_and_ends_the_connections_of_the_tenant(
    fleet, host, monkeypatch
):
    ended = []
    monkeypatch.setattr(ssh_access, "end_connections", ended.append)
    with host.agent():
        fleet.lease("h1", "spare", 1, KEY)
        wait_for_lease(host, "spare", 1)
        (host.root / "root").rename(host.root / "home")
        (host.root / "root").symlink_to("home")  # as a tenant may do
        fleet.lease("h1", "spare", 2)
        wait_until(lambda: host.node.get("lease_failed") == 2, "the error of the second lease")
        error = host.node["error"]
        wait_until(lambda: ended, "the end of the connections")
        fleet.lease("h1", "spare", 3)
        wait_until(lambda: host.node.get("lease_failed") == 3, "the error of the third lease")
        assert host.node["error"] == error
        (host.root / "root").unlink()
        (host.root / "home").rename(host.root / "root")
        fleet.lease("h1", "spare", 4)
        wait_for_lease(host, "spare", 4)
    assert len(ended) >= 2


def test_a_publication_that_fails_on_a_leased_host_does_not_stop_the_fleet(fleet, host):
    with host.agent():
        fleet.lease("h1", "ci", 1)
        wait_for_lease(host, "ci", 1)
        host.fail("/who/myfoo 0")
        fleet.set_version("r2")
        host.wait_for_error()
        assert (fleet.version, host.node["leased"]) == ("r2", {"role": "ci", "number": 1})
        assert host.node["version"] is None


def test_a_host_that_cannot_follow_its_lease_blocks_no_other_host_with_a_kept_lock(fleet, host):
    fleet.lease("h1", "ci", 1, "command=/bin/sh")
    kept = b'{"host": "h1", "name": "h1.example.com", "step": "deploy /who/myfoo 0", "since": 1, "kept": true}'
    fleet.client.create("/zkdeployment/busy/who,myfoo", kept, makepath=True)
    with host.agent():
        wait_until(lambda: host.node.get("error"), "the host cannot follow the lease")
        wait_until(lambda: not fleet.client.get_children("/zkdeployment/busy"), "the lock is handed on")


def test_a_malformed_lease_or_a_smaller_number_is_refused_until_it_is_corrected(fleet, host):
    with host.agent():
        fleet.lease("h1", "ci", 5)
        wait_for_lease(host, "ci", 5)
        fleet.lease("h1", "ci", 4, KEY)
        wait_until(lambda: "went back: expected a number from 5 on, found 4" in host.node.get("error", ""), "4")
        fleet.lease("h1", "ci", 6, "command=/bin/sh")
        wait_until(lambda: "is not a lease: expected one line" in host.node.get("error", ""), "a bad key")
        assert keys(host) == []
        fleet.lease("h1", "ci", 7, KEY)
        wait_for_lease(host, "ci", 7)
        wait_until(lambda: "error" not in host.node, "the error is gone")


def killed(host: AgentHost, *points: str) -> None:
    """Run agents one after the other; each is killed at its point."""
    for point in points:
        with host.process(failpoints=f"{point}=kill") as agent:
            assert agent.wait() == -signal.SIGKILL, point


@pytest.mark.parametrize("point", ["before:write-keys", "before:reach-lease"])
def test_a_frozen_host_does_not_admit_a_key_that_the_lease_has_lost_meanwhile(fleet, host, point):
    put_script(host.root, "foo")
    with host.process():
        wait_for_lease(host, "spare", 0)
    fleet.lease("h1", "ci" if "reach" in point else "spare", 1, KEY)
    # The second point ends the agent before it can remove a key that it has written.
    with host.process(failpoints=f"{point}=freeze,after:{point.partition(':')[2]}=kill") as agent:
        wait_until(lambda: Process(agent.pid).status() == STATUS_STOPPED, "it is frozen")
        fleet.lease("h1", "ci" if "reach" in point else "spare", 2)
        agent.send_signal(signal.SIGCONT)
        assert agent.wait() == -signal.SIGKILL
    assert keys(host) == []


def test_successors_of_killed_agents_complete_a_lease_and_give_the_host_back(fleet, host):
    put_script(host.root, "foo")
    fleet.lease("h1", "ci", 1, KEY)
    killed(
        host, "before:take-role", "before:record-lease", "after:take-role", "after:deploy", "before:reach-lease"
    )
    assert keys(host) == []
    with host.process():
        wait_for_lease(host, "ci", 1)
    assert keys(host) == [TENANT_MARKER, KEY]
    assert fleet.calls()[-2:] == called("/who/myfoo 0")
    fleet.lease("h1", "spare", 2)
    killed(host, "after:write-keys", "after:record-lease", "before:undeploy", "after:reach-lease")
    with host.process():
        wait_for_lease(host, "spare", 2)
        assert (host.node["role"], host.node["version"]) == ("spare", "r1")
    assert (keys(host), host.markers) == ([], [])


def test_a_host_that_can_no_longer_be_leased_removes_everything_of_a_lease(fleet, host):
    with host.agent():
        fleet.lease("h1", "ci", 1, KEY)
        wait_for_lease(host, "ci", 1)
    host.config.write_text(host.config.read_text().replace("lease:spare", "spare"))
    with host.agent():
        host.wait_for_version("r1")
        wait_until(lambda: host.markers == [], "the deployment is undone")
    assert (keys(host), (host.root / LASTING / "lease").exists()) == ([], False)


def test_a_leased_host_follows_a_rollout_when_that_has_ended_but_its_lease_needs_no_grant(fleet, host):
    with host.agent():
        wait_for_lease(host, "spare", 0)
        rollout = ScriptedRollout(fleet, "r2")
        rollout.begin()
        waits = "waits to prepare: rollout 1-1 has not reached this host yet"
        wait_until(lambda: host.node.get("step") == waits, waits)
        fleet.lease("h1", "ci", 1)
        wait_for_lease(host, "ci", 1)
        assert (host.node["version"], fleet.calls()) == ("r2", called("/who/myfoo 0"))
        rollout = ScriptedRollout(fleet, "r3", sequence=2)
        host.fail("/who/myfoo 0")
        rollout.begin()
        wait_until(lambda: "2-1 has not reached" in host.node.get("step", ""), "it waits again")
        rollout.complete()
        host.wait_for_error()
        assert (fleet.version, host.node["version"]) == ("r3", None)
        wait_until(lambda: "deploy:h1" in rollout.reports(), "the rollout knows, but does not count it")


def test_scripts_have_the_role_of_the_lease_in_their_environment_and_a_dry_run_shows_them(fleet, host):
    script = put_script(
        host.root, "foo", '#!/bin/sh\necho "$ZKDEPLOYMENT_ROLE $*" >> "$ZKDEPLOYMENT_ROOT/roles"\n'
    )
    assert script.exists()
    fleet.lease("h1", "ci", 1)
    shown = host.command("--dry-run")
    assert "deploy /who/myfoo 0" in shown.stdout, shown.stderr
    with host.process():
        wait_for_lease(host, "ci", 1)
    assert "nothing to do for r1" in host.command("--dry-run").stderr
    assert (host.root / "roles").read_text() == "ci /who/myfoo 0\n"
    record = json.loads((host.root / LASTING / "lease").read_text())
    assert record == {"role": "ci", "number": 1, "keys": [], "reached": True}


def test_a_host_that_its_tenant_changed_fails_with_each_difference_until_it_is_clean(fleet, host):
    accounts = host.root / "etc/passwd"
    accounts.parent.mkdir()
    accounts.write_text("root:x:0:0::/root:/bin/sh\n")
    with host.agent():
        wait_for_lease(host, "spare", 0)
        fleet.lease("h1", "ci", 1)
        wait_for_lease(host, "ci", 1)
        with accounts.open("a") as file:
            file.write("foo:x:990:990::/:/sbin/nologin\n")  # not by the role: its deployment is over
        fleet.lease("h1", "ci", 2, KEY)
        wait_for_lease(host, "ci", 2)
        (host.root / "root/.ssh/authorized_keys2").write_text(OTHER)
        fleet.lease("h1", "spare", 3)
        host.wait_for_error()
        assert not (host.root / "root/.ssh").exists()
        assert "found new: account foo:x:990:990:/:/sbin/nologin; clean the host" in host.node["error"]
        assert ("leased" in host.node, fleet.version) == (False, "r1")
        accounts.write_text("root:x:0:0::/root:/bin/sh\n")
        fleet.lease("h1", "spare", 4)
        wait_for_lease(host, "spare", 4)
        assert not (host.root / LASTING / "lease-baseline").exists()


@pytest.mark.parametrize("event", ["a boot", "an upgrade"])
def test_a_host_that_its_tenant_changed_is_not_lent_again_after(fleet, host, event):
    accounts = host.root / "etc/passwd"
    accounts.parent.mkdir()
    accounts.write_text("root:x:0:0::/root:/bin/sh\n")
    with host.agent():
        wait_for_lease(host, "spare", 0)
        fleet.lease("h1", "ci", 1, KEY)
        wait_for_lease(host, "ci", 1)
    with accounts.open("a") as file:
        file.write("foo:x:990:990::/:/sbin/nologin\n")
    (host.root / "root/.ssh/authorized_keys2").write_text(OTHER)
    if event == "a boot":
        shutil.rmtree(host.run)
    else:  # the agent before had the files in its run directory
        for name in ("lease", "lease-baseline", "ssh-before-lease"):
            (host.root / LASTING / name).rename(host.run / name)
    with host.agent():
        host.wait_for_version("r1")
        wait_for_lease(host, "ci", 1)
        assert keys(host) == [TENANT_MARKER, KEY]
        fleet.lease("h1", "spare", 2)
        assert "found new: account foo:x:990:990:/:/sbin/nologin; clean the host" in host.wait_for_error()
        assert not (host.root / "root/.ssh").exists()
        assert "leased" not in host.node
        assert not (host.run / "lease-baseline").exists()

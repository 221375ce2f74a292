"""Updates of the operating system and reboots: recorded first, under a lock that outlives the agent."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from support.agents import SCRIPT, AgentHost, Fleet, put_script
from support.builders import make_package
from support.commands import invoke
from support.fleets.coordinated import ScriptedRollout
from support.waiting import wait_until
from support.zookeeper import CountedSession
from zkdeployment.agent.reporting import host_reporting
from zkdeployment.agent.rules import waiting
from zkdeployment.agent.steps import reboots
from zkdeployment.base.act import Maintenance
from zkdeployment.base.errors import PackageError, UnreachableError
from zkdeployment.base.system import HostSystem
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.programs import agent as wiring
from zkdeployment.publishing.store.cluster import read_stops
from zkdeployment.publishing.store.hosts import read_inventories
from zkdeployment.publishing.store.reboots import expire_reboots, read_reboots, recording_reboot
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.agents import RunningAgent

OLD, NEW = "2026-10-16", "2026-11-20"


class Machine:
    """A host with an operating system of one package, and a reboot command that records its calls."""

    def __init__(self, fleet: Fleet, host_id: str, **options: str) -> None:
        self.calls = fleet.directory / f"{host_id}.reboots"
        command = fleet.directory / "reboot"
        command.write_text('#!/bin/sh\necho "$1" >> "$1.reboots"\n')
        command.chmod(0o755)
        reboot = f"{command} {fleet.directory / host_id}"
        self.host = fleet.host(host_id, **{"reboots": "yes", "reboot-command": reboot, **options})
        self.host.packages.put(make_package("bash", "5.1"))
        self.host.packages.releases = {OLD: [make_package("bash", "5.1")], NEW: [make_package("bash", "5.2")]}
        self.boot("boot-1")

    def boot(self, boot_id: str) -> None:
        place = self.host.root / "proc/sys/kernel/random/boot_id"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{boot_id}\n")

    @property
    def reboots(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    @property
    def bash(self) -> list[str]:
        return [package.version for package in self.host.packages.installed()["bash"]]

    @property
    def system(self) -> dict[str, object]:
        file = self.host.root / "var/lib/zkdeployment/system"
        value = json.loads(file.read_text()) if file.exists() else {}
        assert isinstance(value, dict)
        return value

    @contextmanager
    def reaching_its_reboot(self) -> Iterator[RunningAgent]:
        """Run the agent until it has called the reboot command once more; its end is that of the machine."""
        before = self.reboots
        with self.host.agent() as agent:
            wait_until(lambda: self.reboots > before, f"{self.host.id} reboots")
            yield agent


def wanted(fleet: Fleet, release: str, *hosts: str, **properties: object) -> None:
    fleet.write("/os/web", {"type": "system", "release": release, "reboot": "always", **properties})
    for host in hosts:
        fleet.write(f"/os/web/deploy/{host}", {})


def test_a_dry_run_shows_the_packages_of_an_update_and_why_the_host_reboots(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
):
    machine = Machine(fleet, "h1")
    packages = machine.host.packages
    packages.put(make_package("glibc", "1"))
    packages.releases[NEW] = [*packages.releases[NEW], make_package("glibc", "2")]
    monkeypatch.setattr(wiring, "_package_manager", lambda *_: packages)
    wanted(fleet, NEW, "h1", reboot="if needed")
    fleet.set_version("r1")

    def dry_run() -> tuple[int, list[str]]:
        done = invoke("agent", "--dry-run", machine.host.config)
        return done.returncode, done.stdout.splitlines()

    assert dry_run() == (
        0,
        [
            f"1. update system /os/web to {NEW}: the first update of this host",
            "   change bash-5.1-1.noarch to bash-5.2-1.noarch",
            "   change glibc-1-1.noarch to glibc-2-1.noarch",
            "   2 packages change",
            "2. reboot for /os/web: if updated packages need it",
            "   the packages glibc ask for it",
        ],
    )
    assert (machine.bash, machine.system, machine.reboots) == (["5.1"], {}, 0)
    wanted(fleet, "2026-99-99", "h1", reboot="if needed")
    code, lines = dry_run()
    assert (code, lines[1]) == (1, "   would fail: no repository has the release 2026-99-99")


def test_a_host_updates_reboots_verifies_the_boot_under_one_lock_and_reports_its_system(fleet, session):
    machine = Machine(fleet, "h1")
    (machine.host.root / "proc/sys/kernel/osrelease").write_text("5.14-2.x86_64\n")
    machine.host.packages.advisories = {NEW: 3}
    wanted(fleet, NEW, "h1")
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        record = fleet.get("/zkdeployment/reboots/h1")
        assert (record["step"], record["boot_id"], record["count"]) == ("reboot for /os/web", "boot-1", 1)
        assert fleet.get("/zkdeployment/busy/os,web")["kept"] is True
    assert machine.bash == ["5.2"]
    assert fleet.client.get_children("/hosts") == []
    assert ZooKeeperFleetReader(session).snapshot().expected_back.keys() == {"h1"}

    machine.boot("boot-2")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert machine.reboots == 1
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []
    assert machine.system["updated"]["release"] == NEW
    assert machine.system["advisories"] == 3
    assert "pending" not in machine.system
    (known,) = read_inventories(session)
    assert known.system == HostSystem(NEW, 1, "5.14-2.x86_64", advisories=3, updated=machine.system["time"])


def test_an_update_ends_the_records_of_versions_from_before_it(fleet):
    machine = Machine(fleet, "h1")
    registry = machine.host.root / "var/lib/zkdeployment/originals.json"
    registry.parent.mkdir(parents=True, exist_ok=True)
    registry.write_text('{"bash": "0:5.0-1", "zsh": "0:1-1"}')
    wanted(fleet, NEW, "h1", exclude=["z*"])
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        assert json.loads(registry.read_text()) == {"zsh": "0:1-1"}
    machine.boot("boot-2")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert (machine.bash, json.loads(registry.read_text())) == (["5.2"], {})


def test_a_host_reports_its_kernel_and_a_due_reboot_before_its_first_update(fleet, session):
    machine = Machine(fleet, "h1", reboots="no")
    (machine.host.root / "proc/sys/kernel/osrelease").write_text("5.14.1-1.noarch\n")
    machine.host.packages.put(*(make_package("kernel-core", version) for version in ("5.14.1", "5.14.2")))
    machine.host.packages.recent = {"kernel-core"}
    with machine.host.agent():
        wait_until(lambda: any(known.system for known in read_inventories(session)), "the report")
    (known,) = read_inventories(session)
    assert known.system is not None
    assert (known.system.release, known.system.advisories, known.system.kernel) == (None, None, "5.14.1-1.noarch")
    assert known.system.installed_kernel == "5.14.2-1.noarch"
    assert known.system.reasons == ("kernel-core",)
    assert known.system.due is not None


UPDATED = """
/shop
  /web : foo
    version = '{version}'
    /deploy
      /h1
/os
  /web : system
    release = '{release}'
    reboot = '{reboot}'
    /deploy
      /h2
"""


#: The requests of an agent that a watch wakes once more while the publication is written.
_ANOTHER_READING = 3


def test_an_update_sends_no_more_requests_than_a_deployment(fleet, publishing, monkeypatch):
    monkeypatch.setattr(wiring, "Session", CountedSession)
    monkeypatch.setattr(CountedSession, "sessions", [])
    monkeypatch.setattr(host_reporting, "_PACE", 1e9)  # a slow machine shows more progress
    service, system = fleet.host("h1"), Machine(fleet, "h2")

    def publish(version: str, release: str, reboot: str = "never") -> None:
        publishing.push(UPDATED.format(version=version, release=release, reboot=reboot))
        publishing.sync(force=True)

    def sent_by(host: AgentHost, *publication: str) -> int:
        """Run the agent until the host has the publication; return the number of requests."""
        before = sum(session.sent.total() for session in CountedSession.sessions)
        with host.agent() as agent:
            wait_until(lambda: host.node, f"{host.id} registers")
            if publication:
                publish(*publication)
            host.wait_for_version(publishing.published)
            agent.wait_until_idle()
        return sum(session.sent.total() for session in CountedSession.sessions) - before

    publish("1.0", OLD)
    sent_by(service)
    sent_by(system.host)
    start = sent_by(system.host)
    deployment = sent_by(service, "2.0", OLD) - start
    sent_by(system.host)
    update = sent_by(system.host, "2.0", NEW) - start
    publish("2.0", OLD, "always")
    with system.reaching_its_reboot():
        pass
    system.boot("boot-2")
    sent_by(system.host)
    assert update <= deployment + _ANOTHER_READING
    for agent in CountedSession.sessions[-2:]:  # before the reboot, and after it
        assert agent.sent.total() - start <= deployment + _ANOTHER_READING


def test_no_other_host_begins_while_one_reboots(fleet):
    first, second = Machine(fleet, "h1"), Machine(fleet, "h2")
    wanted(fleet, NEW, "h1", "h2")
    fleet.set_version("r1")
    with first.reaching_its_reboot():
        pass
    with second.host.agent():
        waiting = "which has to complete reboot for /os/web"
        wait_until(lambda: waiting in str(second.host.node.get("step")), "h2 waits for h1")
        assert (second.reboots, second.bash) == (0, ["5.1"])
        first.boot("boot-2")
        with first.host.agent():
            first.host.wait_for_version("r1")
            wait_until(lambda: second.reboots == 1, "h2 reboots")
            second.boot("boot-9")


def machine_that_is_gone(fleet):
    """Return h1, whose machine does not come back from its reboot."""
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot_timeout=60)
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    return machine


def expire_later(session):
    """Report hosts as if 61 seconds had passed, also for ZooKeeper."""
    later = time.time() + 61
    with mock.patch("zkdeployment.publishing.store.reboots.server_time", return_value=later):
        return expire_reboots(session, later)


def test_a_host_is_not_reported_by_the_wrong_clock_of_another_machine(fleet):
    machine_that_is_gone(fleet)
    with Session(fleet.connection) as session:
        assert expire_reboots(session, time.time() + 86_400) == ()
        assert [record.expired for record in read_reboots(session)] == [False]
    assert fleet.version == "r1"


def test_the_time_for_a_reboot_begins_when_zookeeper_has_its_record(fleet, monkeypatch):
    failures: list[float] = []

    def fails_once(*arguments):
        if not failures:
            failures.append(time.time())
            raise UnreachableError("no answer")
        return recording_reboot(*arguments)

    monkeypatch.setattr(reboots, "recording_reboot", fails_once)
    machine_that_is_gone(fleet)
    record = fleet.get("/zkdeployment/reboots/h1")
    assert record["since"] > failures[0]
    assert record["deadline"] - record["since"] == pytest.approx(60)


def test_a_host_that_does_not_come_back_stops_the_fleet_once(fleet):
    machine = machine_that_is_gone(fleet)
    with Session(fleet.connection) as session:
        assert expire_reboots(session, time.time()) == ()
        (record,) = read_reboots(session)
        assert expire_later(session) == (record,)
        assert fleet.version is None
        assert expire_later(session) == ()
        assert read_reboots(session) == (replace(record, expired=True),)
    stop = fleet.get("/zkdeployment/stops/h1")
    assert stop["step"] == "reboot for /os/web"
    assert "did not come back from its reboot within 60 s" in stop["reason"]

    machine.boot("boot-2")
    with machine.host.agent() as agent:  # it comes back late: it keeps the lock, and begins nothing
        wait_until(lambda: machine.host.node, "h1 registers")
        agent.wait_until_idle()
        assert fleet.get("/zkdeployment/busy/os,web")["kept"] is True
        assert fleet.client.get_children("/zkdeployment/reboots") == []
        fleet.set_version("r1")
        machine.host.wait_for_version("r1")
    assert fleet.client.get_children("/zkdeployment/busy") == []


def test_a_host_that_does_not_come_back_is_judged_by_the_next_rollout_of_its_publication(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot_timeout=60)
    rollout = ScriptedRollout(fleet, "r1")
    rollout.begin()
    rollout.grant("deploy")
    with machine.reaching_its_reboot():
        pass
    fleet.client.delete(paths.rollout_path(rollout.id), recursive=True)
    rollout.begin(attempt=2)
    with Session(fleet.connection) as session:
        (record,) = read_reboots(session)
        record = replace(record, sequence=1)  # that of a whole publication
        session.commit(*recording_reboot(session, record))
        assert expire_later(session) == (record,)
        assert read_stops(session) == ()
    (report, error) = rollout.reports().popitem()
    assert report == "prepare:h1"
    assert "did not come back from its reboot within 60 s" in str(error)
    assert fleet.version == "r1"


def test_a_host_that_does_not_come_back_after_its_rollout_stopped_the_fleet_is_named_by_a_stop(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot_timeout=60)
    rollout = ScriptedRollout(fleet, "r1")
    rollout.begin()
    rollout.grant("deploy")
    with machine.reaching_its_reboot():
        pass
    rollout.end()
    fleet.set_version(None)
    before = rollout.reports()
    with Session(fleet.connection) as session:
        (record,) = read_reboots(session)
        assert record.rollout == rollout.id
        assert expire_later(session) == (record,)
        assert [stop.host_id for stop in read_stops(session)] == ["h1"]
    assert rollout.reports() == before


def test_a_host_that_can_be_leased_and_does_not_come_back_does_not_stop_the_fleet(fleet):
    machine = Machine(fleet, "h1", role="lease:spare")
    wanted(fleet, NEW, "spare", reboot_timeout=60)
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    with Session(fleet.connection) as session:
        (record,) = read_reboots(session)
        assert expire_later(session) == (record,)
        assert read_reboots(session) == (replace(record, expired=True),)
        assert read_stops(session) == ()
    assert fleet.version == "r1"


def test_a_host_in_maintenance_that_does_not_come_back_does_not_fail(fleet):
    machine_that_is_gone(fleet)
    now = time.time()
    with Session(fleet.connection) as session:
        (record,) = read_reboots(session)
        session.ensure(paths.MAINTENANCE)
        maintenance = Maintenance("h1", "ann", "new disk", now)
        session.commit(Create(paths.maintenance_path("h1"), encode(maintenance.to_json())))
        assert expire_later(session) == (record,)
        assert read_reboots(session) == (replace(record, expired=True),)
        assert read_stops(session) == ()
    assert fleet.version == "r1"


@pytest.mark.parametrize("verb", ["forget", "locks release"])
def test_an_operator_may_declare_a_host_dead_that_does_not_come_back(fleet, verb):
    machine, other = Machine(fleet, "h1"), Machine(fleet, "h2")
    wanted(fleet, NEW, "h1", "h2")
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    words = (
        ["forget", "h1", "--force"] if verb == "forget" else ["locks", "release", "/os/web", "--yes", "--force"]
    )
    act = (*words, "--reason", "it burnt", "--zookeeper", fleet.connection)
    refused = invoke(*(word for word in act if word != "--force"))
    assert refused.returncode == 3
    assert "h1.example.com (h1) reboots since" in refused.stderr
    done = invoke(*act)
    assert done.returncode == 0, done.stderr
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    with other.reaching_its_reboot():
        assert other.bash == ["5.2"]


@pytest.fixture
def under_role_lock(fleet) -> tuple[Machine, Machine]:
    """Return two hosts of a role with a controller; the first one is away for a reboot."""
    fleet.controller("web", "ctl", "1.0")
    machine, other = Machine(fleet, "h1", role="web"), Machine(fleet, "h2", role="web")
    wanted(fleet, NEW, "web")
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    return machine, other


def test_the_release_of_a_roles_lock_ends_the_reboot_of_its_holder(fleet, under_role_lock):
    _, other = under_role_lock
    words = ["locks", "release", "web", "--yes", "--force", "--reason", "it burnt"]
    done = invoke(*words, "--zookeeper", fleet.connection)
    assert done.returncode == 0, done.stderr
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    with other.reaching_its_reboot():
        assert other.bash == ["5.2"]


def test_a_host_that_waits_for_a_roles_lock_reports_that_the_holder_did_not_come_back(
    fleet, session, under_role_lock, monkeypatch
):
    _, other = under_role_lock
    monkeypatch.setattr(waiting, "_PATIENCE", 0.1)
    record = fleet.get("/zkdeployment/reboots/h1")
    assert ZooKeeperFleetReader(session).snapshot().expected_back.keys() == {"h1"}
    fleet.write("/zkdeployment/reboots/h1", {**record, "deadline": record["since"]})
    assert ZooKeeperFleetReader(session).snapshot().expected_back == {}
    with other.host.agent():
        wait_until(lambda: fleet.version is None, "the fleet stops")
    assert "did not come back" in fleet.get("/zkdeployment/stops/h1")["reason"]


def test_a_reboot_command_that_fails_is_a_failure_that_keeps_nothing(fleet):
    machine = Machine(fleet, "h1", **{"reboot-command": "/bin/false"})
    wanted(fleet, NEW, "h1")
    fleet.set_version("r1")
    with machine.host.agent():
        assert "the host cannot reboot: /bin/false failed with status 1" in machine.host.wait_for_error()
        wait_until(lambda: fleet.version is None, "the fleet stops")
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []
    assert machine.system["updated"]["release"] == NEW


def test_a_host_that_needs_no_reboot_is_only_updated(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot="if needed")
    fleet.set_version("r1")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert (machine.reboots, machine.bash) == (0, ["5.2"])


def test_a_host_reboots_if_an_updated_package_asks_for_it_and_verifies_that_none_does(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot="if needed")
    machine.host.packages.put(make_package("kernel-core", "5.14"))
    machine.host.packages.recent = {"kernel-core"}
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    machine.boot("boot-2")
    machine.host.packages.recent = set()
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert machine.reboots == 1


def test_an_earlier_release_is_the_way_back(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot="never")
    fleet.set_version("r1")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
        wanted(fleet, OLD, "h1", reboot="never")
        fleet.set_version("r2")
        machine.host.wait_for_version("r2")
    assert machine.bash == ["5.1"]


def test_an_update_that_cannot_be_prepared_changes_nothing(fleet):
    machine = Machine(fleet, "h1")
    put_script(machine.host.root, "foo")
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    wanted(fleet, "2026-99-99", "h1")
    fleet.set_version("r1")
    with machine.host.agent():
        assert "no repository has the release 2026-99-99" in machine.host.wait_for_error()
    assert (fleet.calls(), machine.bash, machine.reboots) == ([], ["5.1"], 0)


ASKING = SCRIPT + '[ "$ZKDEPLOYMENT_REBOOTS" = 1 ] || exit 102\n'


@pytest.fixture
def asking(fleet: Fleet) -> Machine:
    """Return a host whose deploy script asks for one reboot."""
    machine = Machine(fleet, "h1")
    put_script(machine.host.root, "foo", ASKING)
    fleet.service("/who/myfoo", "foo", None, h1=1)
    machine.host.packages.put(make_package("foo", "1.0"))
    return machine


def test_a_script_may_ask_for_a_reboot_if_its_service_permits_that(fleet, asking):
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", "reboot": "allowed"})
    fleet.set_version("r1")
    with asking.reaching_its_reboot():
        assert fleet.get("/zkdeployment/reboots/h1")["step"] == "deploy /who/myfoo 0"
    asking.boot("boot-2")
    with asking.host.agent():
        asking.host.wait_for_version("r1")
    assert asking.reboots == 1
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"] * 2
    assert asking.system == {}


def test_reboots_for_an_abandoned_deployment_do_not_count_for_a_later_one(fleet, asking):
    def publish(revision, **properties):
        fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", **properties})
        fleet.set_version(revision)

    publish("r1", reboot="allowed")
    with asking.reaching_its_reboot():
        pass
    asking.boot("boot-2")
    put_script(asking.host.root, "foo", SCRIPT)
    fleet.remove("/who/myfoo")
    fleet.set_version("r2")
    with asking.host.agent():
        asking.host.wait_for_version("r2")
    assert asking.system == {}
    put_script(asking.host.root, "foo", ASKING)
    asking.host.packages.put(make_package("foo", "1.0"))
    fleet.service("/who/myfoo", "foo", None, h1=1)
    publish("r3", reboot="allowed")
    with asking.reaching_its_reboot():
        assert fleet.get("/zkdeployment/reboots/h1")["count"] == 1


def test_reboots_for_a_publication_do_not_count_for_the_same_deployment_of_the_next(fleet, asking):
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", "reboot": "allowed"})
    fleet.set_version("r1")
    with asking.reaching_its_reboot():
        pass
    asking.boot("boot-2")
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", "reboot": "allowed", "size": 2})
    fleet.set_version("r2")
    with asking.reaching_its_reboot():
        assert fleet.get("/zkdeployment/reboots/h1")["count"] == 1
    asking.boot("boot-3")
    with asking.host.agent():
        asking.host.wait_for_version("r2")
    assert (asking.reboots, asking.system) == (2, {})


REBOOTING = """
/who
  /myfoo : foo
    version = '1.0'
    reboot = 'allowed'
    /deploy
      /h1
"""

QUARANTINE = """\
schema: zkdeployment/Quarantine/v1
metadata: {name: shop, version: 2.0}
data: {reason: loses orders, by: alice@example.com, time: 2026-11-22}
"""


def test_a_publication_that_changes_only_documents_continues_to_count_the_reboots(publishing, asking):
    publishing.push(REBOOTING)
    publishing.sync(force=True)
    with asking.reaching_its_reboot():
        pass
    asking.boot("boot-2")
    revision = publishing.push(REBOOTING, b_yaml=QUARANTINE)
    publishing.sync(force=True)
    with asking.host.agent():
        asking.host.wait_for_version(revision)
    assert asking.reboots == 1


def test_the_boot_for_a_generation_is_not_that_for_the_next(fleet):
    machine = Machine(fleet, "h1", packages="none")
    for revision, generation in (("r1", 1), ("r2", 2)):
        wanted(fleet, NEW, "h1", update="none", generation=generation)
        fleet.set_version(revision)
        with machine.reaching_its_reboot():
            pass
        machine.boot(f"boot-of-{revision}")
    with machine.host.agent():
        machine.host.wait_for_version("r2")
    assert machine.reboots == 2


def test_the_boot_for_an_update_counts_in_the_next_publication_that_leaves_the_system_unchanged(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1", reboot="always")
    for revision in ("r1", "r2"):
        fleet.set_version(revision)
        if revision == "r1":
            with machine.reaching_its_reboot():
                pass
            machine.boot("boot-of-r1")
    with machine.host.agent():
        machine.host.wait_for_version("r2")
    assert machine.reboots == 1


def test_a_generation_that_is_wanted_again_after_it_was_abandoned_reboots_the_host(fleet):
    machine = Machine(fleet, "h1", packages="none")

    def reboot_for(revision, generation):
        wanted(fleet, NEW, "h1", update="none", generation=generation)
        fleet.set_version(revision)
        with machine.reaching_its_reboot():
            pass
        machine.boot(f"boot-of-{revision}")

    def complete(revision, generation):
        wanted(fleet, NEW, "h1", update="none", generation=generation)
        fleet.set_version(revision)
        with machine.host.agent():
            machine.host.wait_for_version(revision)

    reboot_for("r1", 1)
    complete("r1", 1)
    reboot_for("r2", 2)
    complete("r3", 1)
    reboot_for("r4", 2)
    complete("r4", 2)
    assert machine.reboots == 3


def test_without_permission_the_status_of_a_reboot_is_a_failure(fleet, asking):
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0"})
    fleet.set_version("r1")
    with asking.host.agent():
        assert "102" in asking.host.wait_for_error()
    assert asking.reboots == 0


def test_a_script_that_asks_for_ever_fails_after_three_reboots(fleet, asking):
    put_script(asking.host.root, "foo", SCRIPT + "exit 102\n")
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", "reboot": "allowed"})
    fleet.set_version("r1")
    for number in range(3):
        with asking.reaching_its_reboot():
            pass
        asking.boot(f"boot-{number + 2}")
    with asking.host.agent():
        assert "asks for another reboot after 3 reboots, of which 3 took place" in asking.host.wait_for_error()
        wait_until(lambda: fleet.version is None, "the fleet stops")
    assert asking.reboots == 3
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    fleet.set_version("r1")
    with asking.reaching_its_reboot():  # after the report, a retry may reboot the host again
        assert asking.system["begun"] == {"/who/myfoo 0": 1}


def test_an_agent_killed_before_it_reports_too_many_reboots_reboots_no_more(fleet, asking):
    put_script(asking.host.root, "foo", SCRIPT + "exit 102\n")
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", "reboot": "allowed"})
    state = asking.host.root / "var/lib/zkdeployment/system"
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps({"begun": {"/who/myfoo 0": 3}, "boots": {"/who/myfoo 0": 2}}))
    fleet.set_version("r1")
    with asking.host.process(failpoints="after:withdraw-reboot=kill") as agent:
        agent.wait()
    assert fleet.version == "r1"
    with asking.host.agent():
        assert "after 3 reboots, of which 2 took place" in asking.host.wait_for_error()
        wait_until(lambda: not asking.system, "the failure is reported")
    assert (asking.reboots, fleet.version) == (0, None)


def test_an_update_is_recorded_from_its_begin_until_it_is_complete_or_undone(fleet, monkeypatch):
    machine, seen = Machine(fleet, "h1"), []
    commit = machine.host.packages.commit

    def committing(transaction):
        seen.append(machine.system.get("updating"))
        if len(seen) == 2:
            raise PackageError("the disk is full")
        commit(transaction)

    monkeypatch.setattr(machine.host.packages, "commit", committing)
    wanted(fleet, OLD, "h1", reboot="never")
    fleet.set_version("r1")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
        assert (seen, "updating" in machine.system) == ([True], False)
        wanted(fleet, NEW, reboot="never")
        fleet.set_version("r2")
        assert "the disk is full" in machine.host.wait_for_error()
    assert (seen, "updating" in machine.system, machine.bash) == ([True, True], False, ["5.1"])


def test_an_update_that_was_cut_off_is_undone_if_the_former_release_is_wanted_again(fleet):
    machine = Machine(fleet, "h1")
    machine.host.packages.put(make_package("bash", "5.2"))
    state = machine.host.root / "var/lib/zkdeployment/system"
    state.parent.mkdir(parents=True, exist_ok=True)
    updated = {"path": "/os/web", "release": OLD, "update": "all", "reboot": "never"}
    state.write_text(json.dumps({"updated": updated, "updating": True}))
    wanted(fleet, OLD, "h1", reboot="never")
    fleet.set_version("r1")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert (machine.bash, machine.system["updated"], "updating" in machine.system) == (["5.1"], updated, False)


#: Where an agent dies, and the number of reboot commands until the host is done.
CRASHES = [
    ("before:record-reboot", 1),
    ("after:record-reboot", 1),
    ("after:publish-reboot", 1),
    ("after:reboot", 2),
]


@pytest.mark.parametrize(("point", "commands"), CRASHES)
def test_an_agent_killed_at_any_point_of_a_reboot_is_completed_by_the_next(fleet, point, commands):
    machine = Machine(fleet, "h1", packages="none")
    wanted(fleet, NEW, "h1", update="none")
    fleet.set_version("r1")
    with machine.host.process(failpoints=f"{point}=kill") as agent:
        agent.wait()
    assert fleet.version == "r1"
    with machine.reaching_its_reboot():
        assert machine.reboots == commands
    machine.boot("boot-2")
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert machine.reboots == commands
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []


@pytest.mark.parametrize(
    "point",
    [f"{when}:{what}" for what in ("end-reboot", "note-boot", "settle-system") for when in ("before", "after")],
)
def test_an_agent_killed_after_the_boot_reboots_no_second_time(fleet, point):
    machine = Machine(fleet, "h1", packages="none")
    wanted(fleet, NEW, "h1", update="none")
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    machine.boot("boot-2")
    with machine.host.process(failpoints=f"{point}=kill") as agent:
        agent.wait()
    with machine.host.agent():
        machine.host.wait_for_version("r1")
    assert machine.reboots == 1
    assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert fleet.client.get_children("/zkdeployment/busy") == []


#: A script that asks for a reboot only until it has made its change.
ASKING_ONCE = SCRIPT + '[ -e "$0.changed" ] || { touch "$0.changed"; exit 102; }\n'


def test_the_record_of_a_reboot_that_a_script_no_longer_needs_is_removed(fleet, asking):
    put_script(asking.host.root, "foo", ASKING_ONCE)
    fleet.write("/who/myfoo", {"type": "foo", "version": "1.0", "reboot": "allowed"})
    fleet.set_version("r1")
    with asking.host.process(failpoints="after:publish-reboot=kill") as agent:
        agent.wait()
    assert fleet.client.get_children("/zkdeployment/reboots") == ["h1"]
    with asking.host.agent():
        asking.host.wait_for_version("r1")
        assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert (asking.reboots, asking.system) == (0, {})


@pytest.mark.parametrize("reboot", ["if needed", "never"])
def test_the_record_of_a_reboot_that_a_system_node_no_longer_wants_is_removed(fleet, reboot):
    machine = Machine(fleet, "h1")
    wanted(fleet, OLD, "h1")
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    wanted(fleet, NEW, "h1", reboot=reboot)  # the machine did not go down
    fleet.set_version("r2")
    with machine.host.agent():
        machine.host.wait_for_version("r2")
        assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert (machine.reboots, machine.bash, "pending" in machine.system) == (1, ["5.2"], False)


def test_a_system_that_needs_no_reboot_any_more_leaves_no_record_of_one(fleet):
    machine = Machine(fleet, "h1")
    wanted(fleet, NEW, "h1")
    fleet.set_version("r1")
    with machine.reaching_its_reboot():
        pass
    wanted(fleet, NEW, "h1", reboot="if needed")
    fleet.set_version("r2")
    with machine.host.agent():
        machine.host.wait_for_version("r2")
        assert fleet.client.get_children("/zkdeployment/reboots") == []
    assert (machine.reboots, "pending" in machine.system) == (1, False)


def test_an_agent_killed_while_it_withdraws_a_reboot_leaves_the_record_to_the_next(fleet):
    machine = Machine(fleet, "h1", **{"packages": "none", "reboot-command": "/bin/false"})
    wanted(fleet, NEW, "h1", update="none")
    fleet.set_version("r1")
    with machine.host.process(failpoints="after:withdraw-reboot=kill") as agent:
        agent.wait()
    assert fleet.client.get_children("/zkdeployment/reboots") == ["h1"]
    fleet.client.delete("/os/web/deploy/h1")
    fleet.set_version("r2")
    with machine.host.agent():
        machine.host.wait_for_version("r2")
    assert fleet.client.get_children("/zkdeployment/reboots") == []

"""Hosts with a booted systemd: the RPM, its units and its upgrade, reboots and power failures at bad moments."""

import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.hosts import machine_room
from support.hosts.booted_fleet import BootedFleet
from support.hosts.booted_machine import SHARED
from support.hosts.machine_room import MachineRoom
from support.hosts.rpms import VERSION, later_release
from support.waiting import UNLIMITED, wait_until

UNITS = ("agent", "coordinator", "filter@web", "nagios", "pools", "promoter", "server", "syncer")

#: The sections of the machine that runs everything. Nagios is tested elsewhere: here its bridge has none.
CENTRAL = """\
[sync]
url = {url}
interval = 1
tree-directory = /var/lib/zkdeployment/syncer/tree
[nagios]
server = http://127.0.0.1:8420
user = nagios1
key-file = /etc/zkdeployment/nagios.key
objects = /etc/nagios/zkdeployment
verify = /bin/true
reload = /bin/true
[promote]
url = {url}
directory = /var/lib/zkdeployment/promoter/tree
token-directory = /etc/zkdeployment/fleets
"""

#: Scripts note when they begin and end; those of a host whose name is on hold do not end.
SCRIPT = f"""\
#!/bin/sh
note() {{ echo "$ZKDEPLOYMENT_HOST_ID ${{0##*/}} $*" >>{SHARED}/journal; }}
note begins "$@"
while [ -e "{SHARED}/hold-$ZKDEPLOYMENT_HOST_ID" ]; do sleep 0.05; done
note ends "$@"
"""

TREE = """\
/shop : shop
  version = '{version}'
  {patches}
  /deploy
    /app
/roles
  /app : bracket
    version = '1.0'
"""

#: The release of zkdeployment that the fleet installs at night.
UPGRADED = f"patches = ['zkdeployment {VERSION}-2']"

HOSTS = ("app1", "app2", "app3")

#: The units that run the nightly tests of this repository.
NIGHTLY = Path(__file__).resolve().parents[2] / ".ci" / "systemd"

# Building the RPM takes most of a minute.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900), pytest.mark.all_features]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, built_rpms):
    with BootedFleet(tmp_path_factory.mktemp("booted"), built_rpms) as made:
        made.offer("shop", "1.0", SCRIPT)
        made.offer("shop", "2.0", SCRIPT)
        made.offer("bracket", "1.0", SCRIPT, ("bin/starting-deployments", "bin/ending-deployments"))
        yield made


@pytest.fixture(scope="module")
def installed(fleet):
    """Return a machine, switched off again, on which dnf installed what every host has."""
    machine = fleet.machine("installed")
    machine.run("dnf", "--assumeyes", "--quiet", "install", f"zkdeployment-{VERSION}-1")
    machine.stop()
    return machine


@pytest.fixture(scope="module")
def central(fleet, installed):
    """Return the machine that runs everything."""
    machine = fleet.machine("central", above=installed)
    more = [f"zkdeployment-{part}" for part in ("server", "pools", "nagios", "promoter")]
    machine.run("dnf", "--assumeyes", "--quiet", "install", *more)
    fleet.configure(machine, more=CENTRAL.format(url=fleet.tree_url))
    as_user = ("runuser", "-u", "zkdeployment", "--")
    added = machine.run(*as_user, "zkdeployment", "user", "add", "nagios1", "--role", "monitoring").stdout
    machine.run("useradd", "--system", "nagios")
    key = machine.path("/etc/zkdeployment/nagios.key")
    key.write_text(re.search(r"[0-9a-f-]{36}", added)[0])
    machine.run("chown", "nagios", "/etc/zkdeployment/nagios.key")
    machine.run("chmod", "600", "/etc/zkdeployment/nagios.key")
    machine.run("install", "-d", "-o", "nagios", "/etc/nagios/zkdeployment")
    machine.path("/etc/zkdeployment/filters").mkdir()
    machine.path("/etc/zkdeployment/filters/web.conf").write_text("INPUT=/web/providers\nOUTPUT=/in-service/web\n")
    return machine


def start_host(fleet, name, installed):
    """Return a machine whose agent deploys."""
    machine = fleet.machine(name, above=installed)
    fleet.configure(machine, role="app")
    machine.run("systemctl", "enable", "--now", "zkdeployment-agent")
    return machine


@pytest.fixture(scope="module")
def app3(fleet, central, installed):
    """Return the machine that tests use alone; it is one of three."""
    assert central
    return start_host(fleet, "app3", installed)


@pytest.fixture(scope="module")
def hosts(fleet, app3, installed):
    """Return three machines with agents that deploy one after the other."""
    return {name: start_host(fleet, name, installed) for name in HOSTS[:2]} | {"app3": app3}


class Journal:
    """What scripts noted since the object was made."""

    def __init__(self, fleet) -> None:
        self._file = fleet.shared / "journal"
        self._file.touch()
        self._start = len(self._lines)

    @property
    def _lines(self):
        return self._file.read_text().splitlines()

    def noted(self, host=None):
        return [line for line in self._lines[self._start :] if host is None or line.startswith(f"{host} ")]


def deployed(host):
    """Return the notes of a host's scripts in one deployment."""
    calls = (
        ("starting-deployments", "/roles/app"),
        ("zookeeper-deploy", "/shop 0"),
        ("ending-deployments", "/roles/app"),
    )
    return [f"{host} {script} {word} {rest}" for script, rest in calls for word in ("begins", "ends")]


def assert_one_after_the_other(noted):
    """Check that no host began before another one, which had begun, ended its deployments."""
    order = list(dict.fromkeys(line.split()[0] for line in noted))
    by_host = [[line for line in noted if line.startswith(f"{host} ")] for host in order]
    assert noted == [line for lines in by_host for line in lines]
    assert sorted(order) == sorted(HOSTS)


@contextmanager
def changing_packages(fleet, host):
    """Keep package transactions of a host from ending while the context is open."""
    (fleet.shared / f"transaction-{host.name}").unlink(missing_ok=True)
    hold = fleet.shared / f"hold-packages-{host.name}"
    hold.touch()
    try:
        yield
    finally:
        hold.unlink()


def wait_for_transaction(fleet, host):
    wait_until((fleet.shared / f"transaction-{host.name}").exists, f"{host.name} changes its packages")


def main_process(host):
    return host.unit("zkdeployment-agent")["ExecMainStartTimestampMonotonic"]


def current(hosts):
    return {name: main_process(host) for name, host in hosts.items()}


def is_running(host):
    return host.unit("zkdeployment-agent")["SubState"] == "running"


def services():
    return [f"zkdeployment-{name}.service" for name in UNITS]


def are_well(machine):
    """Whether all units of a machine run, and none was ever restarted."""
    states = [machine.unit(name) for name in services()]
    return all((state["SubState"], state["NRestarts"]) == ("running", "0") for state in states)


def converge(fleet, revision):
    """Return when all hosts are at the revision; fail the test if a host has stopped the fleet."""
    fleet.zkdeployment("status", "--wait", revision, "--timeout", str(UNLIMITED))


def test_a_computers_missing_requirements_for_such_machines_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_room, "IMAGE", tmp_path / "machine")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        AssertionError, match=r"missing: systemd-nspawn .*; ip .*; \S+/machine, which scripts/test makes"
    ):
        MachineRoom()


def test_all_units_start_and_start_again_when_the_machine_reboots(central):
    with central.explained():
        central.run("systemctl", "enable", "--now", *services())
        wait_until(lambda: are_well(central), "all units run")
        central.reboot()
        wait_until(lambda: are_well(central), "all units run")


def test_a_host_that_reboots_during_a_script_runs_it_again_and_does_not_stop_the_fleet(fleet, hosts):
    journal, host, hold = Journal(fleet), hosts["app2"], fleet.shared / "hold-app2"
    hold.touch()
    revision = fleet.publish(TREE.format(version="1.0", patches=""))
    with host.explained():
        wait_until(lambda: "app2 starting-deployments begins /roles/app" in journal.noted(), "the script runs")
        host.reboot()
        wait_until(lambda: len(journal.noted("app2")) > 1, "the script runs again")
        hold.unlink()
        converge(fleet, revision)
    assert journal.noted("app2") == [journal.noted("app2")[0], *deployed("app2")]
    assert_one_after_the_other(journal.noted())


def test_the_fleet_upgrades_zkdeployment_host_by_host(fleet, hosts, built_rpms):
    fleet.repository.add([later_release(built_rpms, fleet.directory, 2)])
    journal, before = Journal(fleet), {name: main_process(host) for name, host in hosts.items()}
    revision = fleet.publish(TREE.format(version="2.0", patches=UPGRADED))
    with hosts["app1"].explained():
        converge(fleet, revision)
        wait_until(lambda: before.items().isdisjoint(current(hosts).items()), "all agents are started anew")
        wait_until(lambda: all(is_running(host) for host in hosts.values()), "all new agents run")
    for name, host in hosts.items():
        assert host.run("rpm", "-q", "zkdeployment").stdout.startswith(f"zkdeployment-{VERSION}-2.")
        assert journal.noted(name) == deployed(name)
    assert_one_after_the_other(journal.noted())


@contextmanager
def impatient_systemd(host):
    """Make systemd kill an agent that does not end within a second."""
    settings = host.path("/etc/systemd/system/zkdeployment-agent.service.d/impatient.conf")
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("[Service]\nTimeoutStopSec=1\n")
    host.run("systemctl", "daemon-reload")
    try:
        yield
    finally:
        settings.unlink()
        host.run("systemctl", "daemon-reload")


@contextmanager
def without_waiting_dnf(host):
    """Make another dnf make each transaction than the one that tested it."""
    (program,) = host.path("/opt/zkdeployment").rglob("zkdeployment_install.py")
    program.rename(program.with_suffix(".away"))
    try:
        yield
    finally:
        program.with_suffix(".away").rename(program)


def another_version(host):
    """Return the version of shop that a host does not have."""
    return "1.0" if host.run("rpm", "-q", "--qf", "%{VERSION}", "shop", check=False).stdout == "2.0" else "2.0"


def running_transaction(host):
    """Return the process ids and command lines in the scopes of package transactions of a host."""
    shown = host.run("systemctl", "status", "--full", "--lines=0", "zkdeployment-packages-*", check=False).stdout
    return re.findall(r"\d+ \S*python3 .*", shown)


def assert_packages_are_whole(fleet, host, version):
    """Check that each transaction ended that began, and that rpm's database and the files are in order."""
    noted = (fleet.shared / f"transaction-{host.name}").read_text().splitlines()
    begun = [line.partition(" ")[2] for line in noted if line.startswith("begins ")]
    assert noted == [f"{word} {package}" for package in begun for word in ("begins", "ends")]
    assert host.run("rpm", "-q", "--qf", "%{VERSION} ", "shop").stdout == f"{version} "
    assert host.run("rpm", "-V", "--noconfig", "shop", "bracket", "zkdeployment").stdout == ""
    names = host.run("rpm", "-qa", "--qf", "%{NAME}\n").stdout.replace("gpg-pubkey", "").split()
    assert len(names) == len(set(names)), "a package is installed twice"
    host.run("dnf", "--quiet", "check", "--duplicates")
    assert not host.path("/var/lib/zkdeployment/packages/journal.json").exists()
    assert running_transaction(host) == []


def test_a_package_transaction_outlives_an_agent_that_systemd_kills(fleet, app3):
    version = another_version(app3)
    with app3.explained(), impatient_systemd(app3):
        with changing_packages(fleet, app3):
            revision = fleet.publish(TREE.format(version=version, patches=""))
            wait_for_transaction(fleet, app3)
            running = running_transaction(app3)
            assert "zkdeployment-install" in str(running)
            app3.run("systemctl", "stop", "zkdeployment-agent")
            assert app3.unit("zkdeployment-agent")["Result"] == "timeout"
            assert running_transaction(app3) == running
            app3.run("systemctl", "start", "zkdeployment-agent")
        converge(fleet, revision)
        assert_packages_are_whole(fleet, app3, version)


def test_an_agent_that_is_stopped_during_a_package_transaction_waits_for_its_end(fleet, hosts):
    host = hosts["app3"]
    version = another_version(host)
    with host.explained(), without_waiting_dnf(host):
        with changing_packages(fleet, host):
            revision = fleet.publish(TREE.format(version=version, patches=UPGRADED))
            wait_for_transaction(fleet, host)
            running = running_transaction(host)
            assert "history replay" in str(running)
            host.run("systemctl", "stop", "--no-block", "zkdeployment-agent")
            wait_until(lambda: host.unit("zkdeployment-agent")["ActiveState"] == "deactivating", "the stop")
            assert running_transaction(host) == running
        wait_until(lambda: host.unit("zkdeployment-agent")["ActiveState"] == "inactive", "the agent ends")
        assert host.unit("zkdeployment-agent")["Result"] == "success"
        host.run("systemctl", "start", "zkdeployment-agent")
        converge(fleet, revision)
    assert_packages_are_whole(fleet, host, version)
    assert (fleet.shared / "transaction-app3").read_text().count("begins shop") == 1


def test_a_host_recovers_from_a_power_failure_during_a_package_transaction(fleet, hosts):
    host = hosts["app1"]
    version = another_version(host)
    with changing_packages(fleet, host):
        revision = fleet.publish(TREE.format(version=version, patches=UPGRADED))
        wait_for_transaction(fleet, host)
        host.cut_power()
    host.start()
    with host.explained():
        converge(fleet, revision)
        assert host.run("rpm", "-q", "--qf", "%{VERSION} ", "shop").stdout == f"{version} "
        assert host.run("rpm", "-V", "shop").stdout == ""


def test_a_timer_runs_the_nightly_tests_of_the_newest_commit(fleet):
    machine = fleet.machine("ci")
    units = machine.path("/etc/systemd/system")
    shutil.copytree(NIGHTLY, units, dirs_exist_ok=True)
    soon = units / "zkdeployment-nightly@.timer.d" / "soon.conf"
    soon.parent.mkdir()
    soon.write_text("[Timer]\nOnCalendar=\nRandomizedDelaySec=0\nOnActiveSec=0\n")
    git = ("git", "-C", "/srv/origin", "-c", "user.name=n", "-c", "user.email=n@example.com")
    machine.run("git", "init", "--quiet", "--initial-branch=main", "/srv/origin")
    script = machine.path("/srv/origin/.ci/run")
    script.parent.mkdir()
    for version in ("old", "new"):
        script.write_text(f'echo {version} "$PWD $*" >>/srv/ran\n')
        machine.run(*git, "add", ".ci")
        machine.run(*git, "commit", "--quiet", "-m", version)
        if version == "old":
            machine.run("git", "clone", "--quiet", "/srv/origin", "/srv/zkdeployment")
    machine.run("systemctl", "enable", "--now", "zkdeployment-nightly@srv-zkdeployment.timer")
    wait_until(machine.path("/srv/ran").exists, "the tests run")
    wait_until(
        lambda: machine.path("/srv/ran").read_text() == "new /srv/zkdeployment --nightly\n", "the newest commit"
    )


def test_an_upgrade_restarts_the_programs_that_run_and_starts_no_others(central):
    syncer, coordinator, promoter = (f"zkdeployment-{name}" for name in ("syncer", "coordinator", "promoter"))
    central.run("systemctl", "start", syncer, coordinator)
    central.run("systemctl", "stop", promoter)
    before = {name: central.unit(name)["MainPID"] for name in (syncer, coordinator)}
    central.run("dnf", "--assumeyes", "--quiet", "reinstall", "zkdeployment", "zkdeployment-promoter")
    after = {name: central.unit(name)["MainPID"] for name in (syncer, coordinator)}
    assert before.items().isdisjoint(after.items())
    assert "0" not in after.values()
    assert central.unit(promoter)["ActiveState"] == "inactive"


def test_the_removal_of_the_packages_ends_all_units(central):
    central.run("dnf", "--assumeyes", "--quiet", "remove", "zkdeployment")
    assert not central.path("/opt/zkdeployment").exists()
    assert {central.unit(name)["ActiveState"] for name in services()} == {"inactive"}

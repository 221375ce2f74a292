"""Updates of operating systems on booted machines, which really reboot, lose their power, or do not come back."""

import shutil
import subprocess
import threading
from contextlib import closing, contextmanager
from socket import create_connection

import pytest

from support.hosts.booted_fleet import SCRIPTLETS, BootedFleet
from support.hosts.booted_machine import SHARED
from support.hosts.packages import AvailablePackage
from support.hosts.rpms import VERSION, build_rpm
from support.hosts.snapshots import KERNEL, NEW, OLD, definition
from support.waiting import UNLIMITED, wait_until

HOSTS = ("app1", "app2", "app3")

#: The service of each host, which the controller of the role takes out of service.
WEB = """\
[Service]
ExecStart=/usr/bin/python3 -m http.server 8000
[Install]
WantedBy=multi-user.target
"""

SCRIPT = """\
#!/bin/bash
case ${0##*/} in
starting-deployments) systemctl stop web ;;
ending-deployments)
    systemctl start web
    until (: </dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.05; done ;;
esac
"""

#: Waits before the shutdown while a file of the host exists.
REBOOT_COMMAND = f"""\
#!/bin/sh
touch {SHARED}/reboots-$(hostname)
while [ -e {SHARED}/hold-reboot-$(hostname) ]; do sleep 0.05; done
exec systemctl reboot
"""

TREE = """\
/os
  /app : system
    release = '{release}'
    reboot = '{reboot}'
    generation = {generation}
    reboot_timeout = {timeout}
    /deploy
      /app
/roles
  /app : bracket
    version = '1.0'
"""

# Building the RPM takes most of a minute.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900), pytest.mark.all_features]


def add_release(fleet, release, version, kernel):
    """Add a snapshot of the operating system's repository to the files that all machines see."""
    place = fleet.shared / "os" / release
    place.mkdir(parents=True)
    base = build_rpm(fleet.directory, "base", version, script="", places=("data",), scriptlets=SCRIPTLETS)
    core = AvailablePackage(name="kernel-core", version=kernel, provides=(KERNEL,), directory=f"kernel-{kernel}")
    shutil.copy(base, place)
    core.build(place)
    subprocess.run(["createrepo_c", "--quiet", place], check=True)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, built_rpms):
    with BootedFleet(tmp_path_factory.mktemp("reboots"), built_rpms) as made:
        made.offer("bracket", "1.0", SCRIPT, ("bin/starting-deployments", "bin/ending-deployments"))
        add_release(made, OLD, "1.0", "5.14.1")
        add_release(made, NEW, "2.0", "5.14.2")
        with made.syncing():
            yield made


@pytest.fixture(scope="module")
def installed(fleet):
    """Return a machine, switched off again, at the old release with the agent's package and the service."""
    machine = fleet.machine("installed")
    machine.path("/etc/dnf/vars").mkdir(parents=True, exist_ok=True)
    machine.path("/etc/dnf/vars/release").write_text(f"{OLD}\n")
    machine.path("/etc/yum.repos.d/os.repo").write_text(definition(SHARED / "os"))
    machine.path("/etc/systemd/system/web.service").write_text(WEB)
    command = machine.path("/usr/local/bin/reboot-host")
    command.write_text(REBOOT_COMMAND)
    command.chmod(0o755)
    machine.run("dnf", "--assumeyes", "--quiet", "install", f"zkdeployment-{VERSION}-1", "base", "kernel-core")
    machine.run("systemctl", "enable", "web")
    machine.stop()
    return machine


@pytest.fixture(scope="module")
def hosts(fleet, installed):
    """Return three machines with agents, which boot again by themselves."""
    machines = {}
    for name in HOSTS:
        machine = machines[name] = fleet.machine(name, above=installed)
        machine.comes_back = True
        fleet.configure(machine, role="app", host="reboot-command = /usr/local/bin/reboot-host\n")
        machine.run("systemctl", "enable", "--now", "zkdeployment-agent")
    return machines


class Client:
    """A client of the service of all hosts, which notes which hosts were down at the same time.

    A host was down if it answered neither before nor after the others were asked.
    """

    def __init__(self, hosts) -> None:
        self._hosts = hosts
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.down = []

    @contextmanager
    def asking(self):
        """Ask all hosts in a thread while the context is open."""
        self._thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            self._thread.join()

    def _ask(self):
        while not self._ends.wait(0.02):
            down = set.intersection(*(self._silent() for _ in range(2)))
            if down and (not self.down or self.down[-1] != down):
                self.down.append(down)

    def _silent(self):
        return {name for name, host in self._hosts.items() if not answers(host)}


def answers(host):
    """Whether the service of a host accepts a connection."""
    try:
        with closing(create_connection((host.address, 8000), timeout=5)):
            return True
    except OSError:
        return False


@contextmanager
def marked(fleet, name):
    """Have a file that all machines see while the context is open."""
    (fleet.shared / name).touch()
    try:
        yield
    finally:
        (fleet.shared / name).unlink()


class Updates:
    """The pushes of a fleet: each is a change of its system node."""

    def __init__(self, fleet) -> None:
        self._fleet = fleet
        self._generation = 0

    def push(self, release, *, reboot="if needed", timeout=900):
        """Push a release with the next generation and return the revision."""
        self._generation += 1
        text = TREE.format(release=release, reboot=reboot, timeout=timeout, generation=self._generation)
        return self._fleet.publish(text)


@pytest.fixture(scope="module")
def updates(fleet):
    return Updates(fleet)


def converge(fleet, revision):
    fleet.zkdeployment("status", "--wait", revision, "--timeout", str(UNLIMITED))


def wait_for_status(fleet, words):
    wait_until(lambda: words in fleet.status(), f"the status has {words!r}")


def assert_all_have(hosts, release, base, *kernels):
    """Check the release that hosts keep, and the versions of their packages."""
    assert {name: _system(host) for name, host in hosts.items()} == dict.fromkeys(
        HOSTS, (release, base, [*kernels])
    )


def _system(host):
    kernels = host.run("rpm", "-q", "--qf", "%{VERSION} ", "kernel-core").stdout.split()
    base = host.run("rpm", "-q", "--qf", "%{VERSION}", "base").stdout
    return host.path("/etc/dnf/vars/release").read_text().strip(), base, sorted(kernels)


def boot_ids(hosts):
    return {name: host.boot_id() for name, host in hosts.items()}


def test_a_commit_updates_and_reboots_three_machines_one_at_a_time(fleet, hosts, updates):
    converge(fleet, updates.push(OLD, reboot="never"))
    wait_until(lambda: all(answers(host) for host in hosts.values()), "all services answer")
    before = boot_ids(hosts)
    with hosts["app1"].explained(), Client(hosts).asking() as client:
        converge(fleet, updates.push(NEW))
    assert_all_have(hosts, NEW, "2.0", "5.14.1", "5.14.2")
    assert before.items().isdisjoint(boot_ids(hosts).items())
    assert sorted(client.down, key=sorted) == [{name} for name in HOSTS]


def test_a_power_cut_in_the_transaction_or_before_the_shutdown_repeats_no_work_twice(fleet, hosts, updates):
    """The first cut leaves half a transaction, the second one a recorded reboot that never began."""
    with hosts["app1"].explained():
        (fleet.shared / "transaction-app2").unlink(missing_ok=True)
        with marked(fleet, "hold-packages-app2"):
            revision = updates.push(OLD, reboot="always")
            wait_until((fleet.shared / "transaction-app2").exists, "app2 changes its packages")
            hosts["app2"].cut_power()
        (fleet.shared / "reboots-app2").unlink(missing_ok=True)
        with marked(fleet, "hold-reboot-app2"):
            hosts["app2"].start()
            wait_until((fleet.shared / "reboots-app2").exists, "app2 begins to reboot")
            hosts["app2"].cut_power()
        hosts["app2"].start()
        converge(fleet, revision)
    assert_all_have(hosts, OLD, "1.0", "5.14.1", "5.14.2")
    assert hosts["app2"].run("rpm", "-V", "base", "kernel-core").stdout == ""


def test_a_host_that_does_not_come_back_stops_the_fleet_and_continues_after_its_return(fleet, hosts, updates):
    before = boot_ids(hosts)
    hosts["app2"].comes_back = False
    revision = updates.push(NEW, reboot="always", timeout=20)
    with hosts["app1"].explained():
        hosts["app2"].await_off()
        wait_for_status(fleet, "ALL STOP")
        why = fleet.zkdeployment("why", "app2")
        assert "did not come back" in why
        hosts["app2"].comes_back = True
        hosts["app2"].start()
        wait_until(lambda: hosts["app2"].boot_id() not in {None, before["app2"]}, "app2 is back")
        fleet.zkdeployment("resume")
        converge(fleet, revision)
    assert before.items().isdisjoint(boot_ids(hosts).items())
    assert_all_have(hosts, NEW, "2.0", "5.14.1", "5.14.2")


def test_a_host_that_comes_back_during_a_stop_starts_nothing_and_keeps_its_lock(fleet, hosts, updates):
    hosts["app3"].comes_back = False
    revision = updates.push(NEW, reboot="always")
    with hosts["app3"].explained():
        hosts["app3"].await_off()
        fleet.zkdeployment("stop", "--reason", "the switch is replaced")
        hosts["app3"].comes_back = True
        hosts["app3"].start()
        wait_for_status(fleet, "ALL STOP")
        assert "app3" in fleet.zkdeployment("locks")
        fleet.zkdeployment("resume")
        converge(fleet, revision)


def test_a_push_during_a_reboot_takes_the_update_back_on_the_host_that_reboots(fleet, hosts, updates):
    hosts["app1"].comes_back = False
    updates.push(NEW, reboot="always")
    with hosts["app1"].explained():
        hosts["app1"].await_off()
        revision = updates.push(OLD)
        hosts["app1"].comes_back = True
        hosts["app1"].start()
        converge(fleet, revision)
    assert_all_have(hosts, OLD, "1.0", "5.14.1", "5.14.2")

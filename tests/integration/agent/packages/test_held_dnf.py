"""A dnf that tested a transaction waits for the order; all events during the wait are harmless."""

import json
import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest
from structlog.testing import capture_logs

from support.hosts.rpm_hosts import RpmHost, change
from support.waiting import wait_until
from zkdeployment.agent.packages import command, held_dnf, installed_packages
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.errors import PackageError, ShutdownError
from zkdeployment.base.machine import process

#: An agent that prepares a change and is killed while dnf waits: ROOT REPOSITORIES {package: version}.
AGENT = """\
import json, os, pathlib, signal, sys
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.plan import PackageChange
want = json.loads(sys.argv[3])
manager = Dnf(pathlib.Path(sys.argv[1]), (sys.argv[2],))
transaction = manager.prepare(PackageChange(want=want, managed=frozenset(want)))
if sys.argv[4:]:
    manager._journal.open(transaction.entry)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def prepared_host(tmp_path_factory, rpm_repository):
    """A host whose rpm has the repository's key: its import is a change of rpm's database."""
    host = RpmHost(tmp_path_factory.mktemp("held"), rpm_repository)
    host.manager.commit(host.manager.prepare(change({"bar": "1.0"})))
    return host


@pytest.fixture
def host(prepared_host):
    """The same host with foo 1.0 and bar 1.0."""
    prepared_host.manager = prepared_host.new_manager()
    prepared_host.rpm("-e", "--nodeps", *prepared_host.installed)
    prepared_host.put("foo", "1.0")
    prepared_host.put("bar", "1.0")
    yield prepared_host
    prepared_host.manager.recover()
    assert waiting_dnf(prepared_host) is None


def waiting_dnf(host):
    """Return the dnf of this host that waits for the order or makes its transaction."""
    for candidate in psutil.process_iter(["cmdline"]):
        arguments = candidate.info["cmdline"] or []
        if command.INSTALL_COMMAND in arguments and any(str(host.root) in argument for argument in arguments):
            return candidate
    return None


@pytest.fixture
def replays(monkeypatch):
    """The transactions that a second dnf makes."""
    made = []
    make = installed_packages.make_repository

    def spy(directory, name, *, signed):
        made.append(name)
        return make(directory, name, signed=signed)

    monkeypatch.setattr(installed_packages, "make_repository", spy)
    return made


def upgrade(host):
    host.manager.commit(host.manager.prepare(change({"foo": "1.1"})))
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}


def test_a_waiting_dnf_holds_no_lock_and_its_transaction_is_in_dnfs_history(host, replays):
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    assert waiting_dnf(host) is not None
    with host.locked():  # rpm's lock is free
        pass
    other = Dnf(host.root, host.repositories, patience=0.5)
    other.prepare(change({"library": "2.0"}))  # dnf's locks are free
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}
    assert replays == []
    other.recover()
    info = ["history", "info", "last"]
    history = host.manager._dnf.run(*info)
    assert command.INSTALL_COMMAND in history
    assert "Upgrade" in history
    assert "foo-1.1-1.noarch" in history


def kill(host):
    waiting_dnf(host).kill()


def withdraw(host):
    """End the program by another line than the order."""
    host.manager._held._waiting.conversation.send(b"withdrawn\n")
    wait_until(lambda: waiting_dnf(host) is None, "dnf has ended")


def reinstall(host):
    """Change rpm's database, but not the list of packages."""
    host.rpm("-U", "--replacepkgs", *map(str, host.repository.directory.glob("foo-1.0-*.rpm")))


def lose_repository(host):
    host.lose_repository()


def kill_before_the_order(host):
    """Kill the program after the last check of it, and before the order."""

    def late(conversation, line):
        kill(host)
        send(conversation, line)

    send, process.Conversation.send = process.Conversation.send, late


def kill_before_it_reads_the_order(host):
    def early(conversation, line):
        waiting_dnf(host).suspend()
        send(conversation, line)
        kill(host)

    send, process.Conversation.send = process.Conversation.send, early


def change_the_package(host):
    """Publish another file for the same package, which nothing has checked."""
    file = host.repository.directory / "foo-1.1-1.noarch.rpm"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


EVENTS = {
    kill: "was killed by signal 9",
    kill_before_the_order: "was killed by signal 9",
    kill_before_it_reads_the_order: "was killed by signal 9",
    withdraw: "the order was withdrawn",
    reinstall: "another program changed packages",
    lose_repository: "repositor",
    change_the_package: "incorrect checksum",
}

#: The events that are tried in every commit.
OFTEN = (kill, reinstall, change_the_package)


@pytest.mark.parametrize(
    "event", [pytest.param(event, marks=() if event in OFTEN else pytest.mark.nightly) for event in EVENTS]
)
def test_another_dnf_makes_the_transaction_if_the_waiting_one_cannot(host, replays, monkeypatch, event):
    monkeypatch.setattr(process.Conversation, "send", process.Conversation.send)
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    event(host)
    with capture_logs() as logs:
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}
    assert replays == ["zkdeployment-prepared"]
    (reason,) = [entry["reason"] for entry in logs if entry["event"] == "packages-dnf-not-begun"]
    assert EVENTS[event] in reason
    if event is lose_repository:
        host.find_repository()
    if event is change_the_package:
        change_the_package(host)  # back


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Replace text in the program."""

    def alter(old, new):
        source = command._PROGRAM.read_text()
        assert source.count(old) == 1
        altered = tmp_path / "altered.py"
        altered.write_text(source.replace(old, new))
        monkeypatch.setattr(command, "_PROGRAM", altered)

    return alter


def refuse_to_run(*_arguments, **_options):
    raise PackageError("this test allows no other dnf")


def test_the_waiting_dnf_fetches_the_files_for_a_rollback(host, monkeypatch):
    shutil.rmtree(host.root / "var/lib/zkdeployment/packages/kept", ignore_errors=True)
    log = host.root / "var/log/dnf.log"
    earlier = log.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(command.DnfCommand, "run", refuse_to_run)
        transaction = host.manager.prepare(change({"foo": "1.1"}))
    assert transaction.reversible
    assert [path.name for path in host.manager._cache.files] == ["foo-1.0-1.noarch.rpm"]
    assert "reinstall" not in (transaction.directory / "output.txt").read_text().lower()
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}
    later = log.read_text().removeprefix(earlier)
    assert [line.partition(" ")[2] for line in later.splitlines()].count("INFO Running transaction") == 1


@pytest.mark.parametrize(
    ("failure", "other_dnfs"),
    [
        ("os.kill(os.getpid(), 9)", ["zkdeployment-prepared"]),
        ("raise AttributeError", ["zkdeployment-prepared"]),
        ("raise dnf.exceptions.Error", []),
    ],
    ids=["killed", "other interfaces", "repository unreachable"],
)
def test_another_dnf_fetches_the_files_for_a_rollback_if_the_waiting_one_cannot(
    host, replays, program, failure, other_dnfs
):
    shutil.rmtree(host.root / "var/lib/zkdeployment/packages/kept", ignore_errors=True)
    fetch = "with _silence(), dnf.cli.cli"
    program(fetch, f"{failure}\n            {fetch}")
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    assert transaction.reversible
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}
    assert replays == other_dnfs


@pytest.mark.nightly
def test_a_dnf_that_waited_too_long_is_replaced_and_logged(host, replays, program):
    program("LIMIT = 60.0", "LIMIT = 0.1")
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    wait_until(lambda: waiting_dnf(host) is None, "dnf has ended")
    with capture_logs() as logs:
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "bar-1.0-1.noarch"}
    assert replays == ["zkdeployment-prepared"]
    (event,) = [entry for entry in logs if entry["event"] == "packages-dnf-not-begun"]
    assert event["reason"] == "no order came within 0.1 s"


def test_the_change_fails_if_dnf_was_killed_after_it_took_the_order(host, replays, program):
    """Scriptlets may have run, although rpm's database shows no change."""
    accepted = "self._order.accept()"
    program(accepted, f"{accepted}; import signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(PackageError, match="was killed by signal 9"):
        upgrade(host)
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}
    assert replays == []


@pytest.mark.nightly
def test_the_change_fails_if_dnf_changed_packages_although_it_did_not_take_the_order(host, replays, program):
    remove = ["rpm", "--root", str(host.root), "--dbpath", "/var/lib/rpm", "-e", "foo"]
    change_secretly = f"import subprocess, signal; subprocess.check_call({remove}); os.kill(os.getpid(), 9)"
    program("self._order.accept()", change_secretly)
    with pytest.raises(PackageError, match=r"dnf did not report it: foo.*; all packages were"):
        upgrade(host)
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}
    assert replays == ["zkdeployment-kept"]  # the rollback


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("known", "unknown"),
    [("dbCookie()", "nameOfAnotherVersion()"), ("conf.cacheonly = True", "conf.nameOfAnotherVersion()")],
    ids=["before the order", "after the order"],
)
def test_a_dnf_with_other_interfaces_works_as_before(host, replays, program, known, unknown):
    program(known, unknown)
    upgrade(host)
    assert replays == ["zkdeployment-prepared"]


@pytest.mark.nightly
def test_an_upgrade_of_zkdeployment_during_a_deployment_may_move_the_program(host, replays, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_PROGRAM", tmp_path / "moved.py")
    upgrade(host)
    assert replays == ["zkdeployment-prepared"]
    with pytest.raises(PackageError, match="the disk is on fire; all packages were rolled back"):
        host.manager.commit(host.manager.prepare(change({"last-aid": "2.0"})))


@pytest.mark.parametrize("with_journal", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_dnf_ends_with_its_agent_and_changes_nothing(host, tmp_path, with_journal):
    argv = [sys.executable, "-c", AGENT, str(host.root), *host.repositories, json.dumps({"foo": "1.1"})]
    log = tmp_path / "log"
    process.start([*argv, *(["journal"] if with_journal else [])], log=log)
    wait_until(lambda: log.exists() and list(host.root.rglob("prepared-*/foo*.rpm")), "dnf prepares")
    wait_until(lambda: waiting_dnf(host) is None, "dnf has ended")
    host.manager.recover()
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}
    assert not list((host.root / "var/lib/zkdeployment/packages").glob("prepared-*"))
    upgrade(host)


def test_recovery_and_a_failed_commit_end_a_waiting_dnf(host):
    host.manager.prepare(change({"foo": "1.1"}))
    host.manager.recover()
    assert waiting_dnf(host) is None
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    host.put("bar", "2.0")
    with pytest.raises(Exception, match="another program changed packages"):
        host.manager.commit(transaction)
    assert waiting_dnf(host) is None


@pytest.mark.nightly
def test_recovery_ends_even_a_waiting_dnf_that_was_stopped(host, monkeypatch):
    monkeypatch.setattr(held_dnf, "_PATIENCE", 0.1)
    host.manager.prepare(change({"foo": "1.1"}))
    waiting_dnf(host).suspend()
    host.manager.recover()
    assert waiting_dnf(host) is None


@pytest.mark.nightly
def test_recovery_does_not_wait_for_the_dnf_of_a_root_whose_name_ends_like_this_one(host):
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    argv = [sys.executable, "-c", "input()", "replay", f"/elsewhere{transaction.directory}/plan.json"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as other:
        host.manager.recover()
        assert other.poll() is None
        other.kill()


@pytest.mark.nightly
def test_of_two_transactions_the_first_is_held(host, replays):
    first = host.manager.prepare(change({"foo": "1.1"}))
    host.manager.prepare(change({"library": "2.0"}))
    assert replays == ["zkdeployment-prepared"]
    host.manager.commit(first)
    assert replays == ["zkdeployment-prepared"]


def test_a_stop_during_the_preparation_kills_dnf(host):
    def tick():
        if list(host.root.rglob("prepared-*")):
            raise ShutdownError("stopping")

    stopped = Dnf(host.root, host.repositories, tick=tick)
    program = command._PROGRAM
    slow = host.root.parent / "slow.py"
    slow.write_text(
        program.read_text().replace(
            "    dnf.yum.rpmtrans.RPMTransaction = ReportedTransaction\n", "    import time; time.sleep(300)\n"
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_PROGRAM", slow)
        with pytest.raises(ShutdownError):
            stopped.prepare(change({"foo": "1.1"}))
    assert waiting_dnf(host) is None


def test_a_dnf_that_is_killed_during_its_transaction_is_rolled_back(host):
    host.start_agent({"foo": "1.1", "slow": "1.0"})
    os.kill(waiting_dnf(host).pid, signal.SIGKILL)
    (host.root / "scriptlet-runs").unlink()
    log = host.root.parent / "agent.log"
    wait_until(lambda: "all packages were rolled back" in log.read_text(), "the agent has rolled back")
    assert "was killed by signal 9" in log.read_text()
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}

"""Properties of ``Dnf`` with real rpm and dnf; common properties of package managers are in tests/contract."""

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from support.builders import make_package
from support.hosts.packages import KERNEL_MODULE, AvailablePackage
from support.hosts.repositories import publish_modules
from support.hosts.rpm_hosts import RpmHost, change
from support.waiting import wait_until
from zkdeployment.agent.packages import command, failures, hidden_packages
from zkdeployment.agent.packages.command import find_program
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.agent.packages.installed_packages import PackageCache, RpmDatabase, RpmFile
from zkdeployment.agent.packages.none import NoTransaction
from zkdeployment.agent.packages.replays import Replay
from zkdeployment.base.errors import PackageError, ShutdownError
from zkdeployment.base.machine import process

#: The major version of the dnf that runs here.
GENERATION = find_program().generation

#: The commands of dnf that change packages.
COMMANDS = {"replay", command.INSTALL_COMMAND}


@pytest.fixture
def host(tmp_path, rpm_repository):
    return RpmHost(tmp_path, rpm_repository)


def deploy(host, want, *remove: str):
    host.manager.commit(host.manager.prepare(change(want, *remove)))


@pytest.fixture(scope="module")
def deployed_roots(tmp_path_factory, rpm_repository):
    """The root directories of hosts that deployed certain packages, by these packages; each is made once."""
    roots = {}

    def root_of(**packages):
        key = frozenset(packages.items())
        if key not in roots:
            host = RpmHost(tmp_path_factory.mktemp("deployed"), rpm_repository)
            deploy(host, packages)
            roots[key] = host.root
        return roots[key]

    return root_of


@pytest.fixture
def begin(host, deployed_roots):
    """Return a function that makes the test's host one that deployed these packages."""

    def copy(**packages):
        shutil.copytree(deployed_roots(**packages), host.root, symlinks=True, dirs_exist_ok=True)

    return copy


def state_directory(host):
    return host.root / "var/lib/zkdeployment/packages"


def cached_files(host):
    return {file.name for file in (state_directory(host) / "kept").glob("*.rpm")}


def leftovers(host):
    expected = {"home", "kept", "originals", "back"}
    return {path.name for path in state_directory(host).iterdir()} - expected


def running_dnf(host):
    """Return the process of dnf that makes a transaction of this host, or waits for it."""
    for candidate in psutil.process_iter(["cmdline"]):
        arguments = candidate.info["cmdline"] or []
        if COMMANDS.intersection(arguments) and any(str(host.root) in argument for argument in arguments):
            return candidate
    return None


@contextlib.contextmanager
def recorded_programs(monkeypatch):
    """Yield the list of programs that are run inside the block."""
    programs = []
    for name in ("run", "run_apart", "converse"):
        real = getattr(process, name)

        def spy(argv, real=real, **keywords):
            programs.append(Path(argv[0]).name)
            return real(argv, **keywords)

        monkeypatch.setattr(process, name, spy)
    yield programs
    monkeypatch.undo()


def test_an_installed_package_needs_no_call_of_dnf(host, begin, monkeypatch):
    begin(foo="1.1")
    with recorded_programs(monkeypatch) as programs:
        deploy(host, {"foo": "1.1"}, "bar")
    assert set(programs) == {"rpm"}


def test_a_change_of_many_packages_starts_dnf_once(host, begin, monkeypatch):
    begin(foo="1.0", bar="1.0")
    with recorded_programs(monkeypatch) as programs:
        deploy(host, {"foo": "1.1", "bar": "2.0", "library": "2.0", "foo-1.1": None})
    dnf = ["python3"] if GENERATION == 4 else [find_program().path.name] * 2  # dnf 4 waits for the order
    assert sorted(set(programs)) == sorted({*dnf, "rpm"})
    assert len([program for program in programs if program != "rpm"]) == len(dnf)


@pytest.mark.nightly
def test_a_commit_reads_the_installed_packages_before_and_after_its_transaction(host, begin, monkeypatch):
    begin(foo="1.0")
    transaction = host.manager.prepare(change({}, "foo"))
    with recorded_programs(monkeypatch) as programs:
        host.manager.commit(transaction)
    assert programs == ["rpm", "python3" if GENERATION == 4 else find_program().path.name, "rpm"]


@pytest.mark.nightly
def test_only_the_files_of_installed_packages_are_cached(host):
    deploy(host, {"foo": "1.0", "bar": "1.0"})
    deploy(host, {"foo": "1.1"}, "bar")
    assert cached_files(host) == {"foo-1.1-1.noarch.rpm"}
    assert leftovers(host) == set()


def test_only_the_owner_can_read_the_cache(host):
    deploy(host, {"foo": "1.0"})
    assert state_directory(host).stat().st_mode & 0o077 == 0


@pytest.mark.nightly
def test_a_package_that_was_just_published_is_found(host):
    newer = next(host.repository.directory.glob("foo-1.1-1.*")).read_bytes()
    host.withdraw("foo", "1.1")
    deploy(host, {"foo": "1.0"})
    (host.root.parent / "foo-1.1-1.noarch.rpm").write_bytes(newer)
    host.repository.add([host.root.parent / "foo-1.1-1.noarch.rpm"])
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


def test_a_refused_file_is_removed(host):
    with pytest.raises(PackageError, match=r"requires: .*unsigned-1\.0-1\.noarch.*is not signed"):
        host.manager.prepare(change({"unsigned": "1.0"}))
    assert leftovers(host) == set()
    assert not list(state_directory(host).rglob("unsigned*"))


@pytest.mark.nightly
def test_a_rollback_to_a_repository_without_signatures_requires_no_signatures(host):
    (definition,) = host.repository.definitions.iterdir()
    definition.write_text(definition.read_text().replace("gpgcheck=1", "gpgcheck=0"))
    deploy(host, {"unsigned": "1.0"})
    transaction = host.manager.prepare(change({"first-aid": "1.0"}, "unsigned"))
    with pytest.raises(PackageError, match=r"the disk is on fire; all packages were rolled back"):
        host.manager.commit(transaction)
    assert host.installed == {"unsigned-1.0-1.noarch"}


@pytest.mark.nightly
def test_the_file_of_a_replaced_package_that_others_installed_is_fetched_first(host):
    host.put("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    assert transaction.reversible
    assert cached_files(host) == {"foo-1.0-1.noarch.rpm"}
    host.withdraw("foo", "1.0")
    with pytest.raises(PackageError, match="scriptlet failed"):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


@pytest.mark.nightly
def test_a_change_is_not_reversible_when_no_repository_has_the_replaced_package(host):
    host.put("foo", "1.0")
    host.withdraw("foo", "1.0")
    assert not host.manager.prepare(change({"foo": "1.1"})).reversible


def test_a_rollback_without_createrepo_uses_the_configured_repositories(host, begin, monkeypatch):
    begin(foo="1.0")
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == "createrepo_c" else which(name, **more)
    )
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    assert transaction.reversible == (GENERATION == 5)  # dnf 5 installs files
    with pytest.raises(PackageError, match="all packages were rolled back"):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


def test_a_failed_rollback_is_reported_and_the_next_agent_tries_again(host):
    host.put("foo", "1.0")
    lost = next(host.repository.directory.glob("foo-1.0-*")).read_bytes()
    host.withdraw("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    with pytest.raises(PackageError, match=r"could not be rolled back: foo: expected foo-1\.0-1") as info:
        host.manager.commit(transaction)
    assert info.value.changed
    assert f"{state_directory(host)}/journal.json lists the packages to restore" in str(info.value)
    with pytest.raises(
        PackageError, match=r"journal\.json .*: publish those packages in a repository and resume"
    ) as info:
        host.new_manager().recover()
    assert info.value.changed
    (state_directory(host) / "kept").mkdir()
    (state_directory(host) / "kept/foo-1.0-1.noarch.rpm").write_bytes(lost)
    host.new_manager().recover()
    assert host.installed == {"foo-1.0-1.noarch"}


@pytest.mark.nightly
def test_the_cache_holds_several_epochs_of_a_package(host, tmp_path):
    (tmp_path / "more").mkdir()
    offers = [AvailablePackage(name="aged", version="1.0", epoch=epoch) for epoch in (0, 1, 2)]
    database = host.manager._database
    cache = PackageCache(tmp_path / "cache", database)
    for offer in offers:
        (tmp_path / "more" / str(offer.epoch)).mkdir()
        cache.keep(database.read([offer.build(tmp_path / "more" / str(offer.epoch))]))
    packages = {offer.package for offer in offers}
    assert {file.package for file in cache.find(packages)} == packages
    cache.prune({"aged": (offers[1].package,)})
    assert offers[1].package in {file.package for file in cache.find(packages)}
    assert cache.find({offers[2].package}) == []


def test_a_file_is_on_the_disk_before_it_gets_its_name_in_the_cache(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(Path(f"/proc/self/fd/{number}").readlink()))
    download, cache = tmp_path / "download.rpm", PackageCache(tmp_path / "cache", RpmDatabase(tmp_path, {}))
    download.touch()
    (kept,) = cache.keep([RpmFile(download, make_package("foo"), trusted=True)])
    assert synced == [download, cache.directory]
    assert kept.path.exists()


@pytest.mark.nightly
def test_a_package_of_the_system_can_be_restored_after_every_repository_dropped_it(host):
    host.put("bar", "1.0")
    host.manager.commit(host.manager.prepare(change({"bar": "2.0", "foo": "1.0"}, preserve=("bar",))))
    host.withdraw("bar", "1.0")
    deploy(host, {"foo": "1.1"})
    assert (state_directory(host) / "originals/bar-1.0-1.noarch.rpm").exists()
    deploy(host, {"bar": "0:1.0-1"})
    assert host.installed == {"bar-1.0-1.noarch", "foo-1.1-1.noarch"}
    assert not list((state_directory(host) / "originals").glob("*.rpm"))


@pytest.mark.nightly
def test_a_damaged_cached_file_is_fetched_again(host, begin):
    begin(foo="1.0", bar="1.0")
    file = state_directory(host) / "kept/foo-1.0-1.noarch.rpm"
    file.write_bytes(file.read_bytes()[:1000])
    assert host.manager.prepare(change({"foo": "1.1", "bar": "2.0"})).reversible
    assert file.stat().st_size > 1000


@contextlib.contextmanager
def served(host):
    """Serve the host's repository by HTTP and yield a package manager that is configured with the URL."""
    script = (
        "import http.server, functools, sys\n"
        "handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), handler)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    log = host.root.parent / "server.log"
    pid = process.start([sys.executable, "-u", "-c", script, str(host.repository.directory)], log=log)
    try:
        wait_until(lambda: log.read_text().splitlines(), "the server listens")
        yield Dnf(host.root, (f"http://127.0.0.1:{log.read_text().splitlines()[0]}/",), gap=0)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("removed", [(), pytest.param(("bar",), marks=pytest.mark.nightly)])
def test_a_prepared_change_needs_no_server(host, begin, removed):
    begin(foo="1.0", bar="1.0")
    with served(host) as manager:
        transaction = manager.prepare(change({"foo": "1.1", "library": "2.0"}, *removed))
    manager.commit(transaction)
    assert host.installed - {"bar-1.0-1.noarch"} == {"foo-1.1-1.noarch", "library-2.0-1.noarch"}


@pytest.mark.nightly
def test_neither_a_removal_nor_a_rollback_needs_a_server(host, begin):
    begin(foo="1.0", bar="1.0")
    with served(host) as manager:
        removal = manager.prepare(change({}, "bar"))
    manager.commit(removal)
    assert host.installed == {"foo-1.0-1.noarch"}
    (host.root.parent / "server.log").unlink()
    with served(host) as manager:
        transaction = manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    with pytest.raises(PackageError, match="all packages were rolled back"):
        manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


@pytest.mark.nightly
def test_a_prepared_transaction_needs_neither_dnfs_cache_nor_a_repository(host, begin):
    begin(foo="1.0", bar="1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "library": "2.0"}, "bar"))
    for cache in [path for name in ("dnf", "yum") for path in host.root.rglob(f"cache/{name}")]:
        shutil.rmtree(cache)
    host.withdraw("foo", "1.1")
    host.lose_repository()
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "library-2.0-1.noarch"}
    assert leftovers(host) == set()


@pytest.mark.nightly
def test_a_prepared_transaction_survives_a_refreshed_repository(host):
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    host.withdraw("foo", "1.1")
    deploy(host, {"library": "2.0"})
    host.drop("library")
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch"}


@pytest.mark.nightly
def test_a_package_that_others_installed_is_fetched_to_be_reinstalled(host):
    host.put("service", "1.0")
    host.lose_files("service")
    host.manager.commit(host.manager.prepare(change(again=("service",))))
    assert (host.root / "opt/service/bin/zookeeper-deploy").read_text() == "deploy 1.0\n"
    assert cached_files(host) == {"service-1.0-1.noarch.rpm"}


@pytest.mark.nightly
def test_a_package_that_no_repository_has_cannot_be_reinstalled(host):
    host.put("foo", "1.0")
    host.put("bar", "1.0")
    host.withdraw("foo", "1.0")
    with pytest.raises(PackageError, match=r"cannot reinstall foo-1\.0-1\.noarch .*publish it"):
        host.manager.prepare(change(again=("foo", "bar")))
    with pytest.raises(PackageError, match=r"cannot reinstall foo-1\.0-1\.noarch .*publish it"):
        host.manager.prepare(change(again=("foo",)))
    assert leftovers(host) == set()


def test_the_next_agent_waits_for_the_dnf_of_a_dead_agent_until_it_is_asked_to_end(host, begin):
    begin(foo="1.0")
    host.crash({"foo": "1.1", "slow": "1.0"})
    orphan = running_dnf(host)
    assert orphan is not None
    orphan.suspend()

    def tick():
        raise ShutdownError("stopping")

    with pytest.raises(ShutdownError):
        Dnf(host.root, host.repositories, tick=tick).recover()
    orphan.resume()
    host.new_manager().recover()
    assert not orphan.is_running()
    assert host.installed == {"foo-1.0-1.noarch"}
    assert leftovers(host) == set()


def test_no_package_is_installed_twice_after_dnf_was_killed(host, begin):
    begin(foo="1.0", bar="1.0")
    host.start_agent({"foo": "1.1", "bar": "2.0", "slow": "1.0"})
    running_dnf(host).kill()
    wait_until(lambda: not psutil.pid_exists(host.agent) or is_zombie(host.agent), "the agent has rolled back")
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}
    assert "was killed by signal 9" in (host.root.parent / "agent.log").read_text()


def is_zombie(pid):
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.nightly
def test_a_package_installed_twice_by_an_interrupted_program_is_corrected(host, begin):
    begin(foo="1.0")
    (newer,) = host.repository.directory.glob("foo-1.1-1.noarch.rpm")
    host.rpm("-i", "--force", "--justdb", str(newer))
    assert host.installed == {"foo-1.0-1.noarch", "foo-1.1-1.noarch"}
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}
    host.rpm("-i", "--force", "--justdb", *map(str, host.repository.directory.glob("foo-1.0-1.noarch.rpm")))
    deploy(host, {"foo": "1.4-1"})
    assert host.installed == {"foo-1.4-1.noarch"}


@pytest.mark.nightly
def test_a_preparation_waits_for_another_dnf(host, begin):
    begin(foo="1.0")
    host.start_agent({"slow": "1.0"})
    patient = Dnf(host.root, host.repositories, patience=30)

    def install_bar():
        try:
            patient.commit(patient.prepare(change({"bar": "1.0"})))
        except PackageError as error:
            if not error.retry_helps:
                raise
            return False  # the other dnf changed packages after this change was prepared
        return True

    wait_until(install_bar, "both calls of dnf have ended")
    assert {"foo-1.0-1.noarch", "bar-1.0-1.noarch"} <= host.installed


@pytest.mark.nightly
def test_a_repository_that_is_briefly_unreachable_is_tried_again(host, begin, monkeypatch):
    begin(foo="1.0")
    host.lose_repository()
    explain, failed = failures.explain, []

    def come_back_later(status, output, program):
        failed.append(status)
        host.find_repository()
        return explain(status, output, program)

    monkeypatch.setattr(failures, "explain", come_back_later)
    deploy(host, {"foo": "1.1"})
    assert failed == [1]
    assert host.installed == {"foo-1.1-1.noarch"}


def test_a_shutdown_of_the_agent_ends_a_preparation(host, tmp_path):
    repositories = tmp_path / "silent"
    repositories.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        text = f"[silent]\nname=silent\nbaseurl={address}\ngpgcheck=0\n"
        (repositories / "silent.repo").write_text(text)

        def tick():
            raise ShutdownError("stopping")

        with pytest.raises(ShutdownError):
            Dnf(host.root, (str(repositories),), tick=tick).prepare(change({"foo": "1.0"}))
    command_lines = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    assert not [line for line in command_lines if any(str(repositories) in argument for argument in line)]
    assert leftovers(host) == set()


def test_a_shutdown_of_the_agent_ends_the_wait_for_another_program(host):
    attempts = []

    def attempt():
        attempts.append("refused")
        raise failures.LockedError("locked")

    def tick():
        if attempts:
            raise ShutdownError("stopping")

    with pytest.raises(ShutdownError):
        Dnf(host.root, host.repositories, patience=300, tick=tick)._dnf.retry_while_locked(attempt)
    assert attempts == ["refused"]


def test_a_repository_without_a_known_key_is_refused(host):
    with pytest.raises(PackageError, match=r"rpm has no key for the repository: .*; import its key"):
        Dnf(host.root, (host.repository.directory.as_uri(),)).prepare(change({"foo": "1.0"}))


@pytest.mark.nightly
def test_dnf_ignores_the_python_variables_of_the_agent(host, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    command._version.cache_clear()
    deploy(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


def test_two_packages_with_the_same_file_are_refused_before_anything_changes(host, begin):
    begin(foo="1.0")
    with pytest.raises(PackageError, match=r"two packages own the same file: .*/opt/foo/version"):
        host.manager.prepare(change({"squatter": "2.0"}))
    deploy(host, {"squatter": "2.0"}, "foo")
    assert host.installed == {"squatter-2.0-1.noarch"}


@pytest.mark.nightly
def test_two_hosts_on_one_machine_do_not_affect_each_other(host, tmp_path, rpm_repository):
    (tmp_path / "other").mkdir()
    other = RpmHost(tmp_path / "other", rpm_repository)
    deploy(host, {"foo": "1.0"})
    deploy(other, {"foo": "1.1"})
    assert host.installed == {"foo-1.0-1.noarch"}
    assert other.installed == {"foo-1.1-1.noarch"}


@pytest.mark.nightly
def test_the_error_for_another_architecture_names_the_architecture(host, tmp_path):
    spec = tmp_path / "alien.spec"
    spec.write_text(
        "Name: alien\nVersion: 1.0\nRelease: 1\nSummary: For tests\nLicense: MIT\nAutoReqProv: no\n"
        "%description\nFor tests.\n%install\nmkdir -p %{buildroot}/opt/alien\n%files\n/opt/alien\n"
    )
    define = ["--define", f"_topdir {tmp_path}/built"]
    process.run(["rpmbuild", "-bb", "--target", "s390x-linux", *define, str(spec)]).check()
    host.repository.add([*(tmp_path / "built/RPMS/s390x").glob("*.rpm")])
    with pytest.raises(
        PackageError, match=r"alien-1\.0-1\.s390x (from sandbox )?does not have a compatible architecture"
    ):
        deploy(host, {"alien": "1.0"})
    assert host.installed == set()


@pytest.mark.parametrize(
    "other", ["unsigned-1.0-1.noarch.rpm", pytest.param("foo-1.0-1.noarch.rpm", marks=pytest.mark.nightly)]
)
def test_a_file_that_changed_after_the_check_is_not_installed(host, begin, other):
    begin(foo="1.0", bar="1.0")
    transaction = host.manager.prepare(change({"foo": "1.1"}, "bar"))
    (prepared,) = transaction.directory.glob("foo-1.1*.rpm")
    prepared.write_bytes((host.repository.directory / other).read_bytes())
    host.lose_repository()
    with pytest.raises(PackageError):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}


@pytest.mark.nightly
def test_repositories_may_be_enabled_by_their_id(host):
    (definition,) = host.repository.definitions.iterdir()
    definition.write_text(definition.read_text().replace("enabled=1", "enabled=0"))
    with pytest.raises(PackageError, match="no repository is enabled on this host"):
        deploy(host, {"foo": "1.0"})
    host.manager = Dnf(host.root, (*host.repositories, "sandbox"))
    deploy(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


def exclude(host, setting):
    """Add a setting to the definition of the repository."""
    (definition,) = host.repository.definitions.iterdir()
    definition.write_text(f"{definition.read_text()}{setting}\n")


#: Why dnf hides version 2.0 of the package ``library``, and the words for the reason.
HIDDEN = {
    "an exclude of the repository": (
        lambda host: exclude(host, "excludepkgs=library-2*"),
        "is excluded by excludepkgs or includepkgs of the repository sandbox",
    ),
    "an include of the repository": (
        lambda host: exclude(host, "includepkgs=bar,reader"),
        "is excluded by excludepkgs or includepkgs of the repository sandbox",
    ),
    "an exclude of the host": (
        lambda host: (state_directory(host) / "home/dnf.conf").write_text("[main]\nexcludepkgs=library-2*\n"),
        "is excluded by excludepkgs or includepkgs of dnf's main configuration",
    ),
    "a module": (
        lambda host: publish_modules(host.repository.directory, "library-0:2.0-1.noarch"),
        r"is only in a module stream that is not enabled \(tools:2\)",
    ),
}


@pytest.mark.parametrize(
    "hide", [pytest.param(hide, marks=() if "host" in hide else pytest.mark.nightly) for hide in HIDDEN]
)
def test_a_package_that_dnf_hides_is_named_with_the_reason(host, hide):
    make, words = HIDDEN[hide]
    assert host.manager.installed() == {}  # makes dnf's configuration
    make(host)
    with pytest.raises(
        PackageError, match=rf"a repository has library-2\.0-1\.noarch, which {words}; installed: none;"
    ):
        deploy(host, {"library": "2.0"})


@pytest.mark.nightly
def test_a_hidden_package_that_another_one_requires_is_named_with_the_reason(host):
    make, words = HIDDEN["an exclude of the repository"]
    make(host)
    deploy(host, {"bar": "1.0"})
    with pytest.raises(
        PackageError, match=rf"cannot be installed together: .*; a repository has library.*{words}; "
    ):
        deploy(host, {"reader": "2.0"}, "bar")
    with pytest.raises(PackageError, match=r"no repository has the package library 9; .*; publish it"):
        deploy(host, {"library": "9"})
    assert host.installed == {"bar-1.0-1.noarch"}


@pytest.mark.nightly
def test_a_package_that_a_plugin_hides_is_not_said_to_be_missing(host, monkeypatch):
    exclude(host, "excludepkgs=library-2*")
    monkeypatch.setattr(hidden_packages, "_WITHOUT_EXCLUDES", "--setopt=disable_excludes=main")
    with pytest.raises(
        PackageError, match=r"does not use a requested package although a repository has it: .*library"
    ):
        deploy(host, {"library": "2.0"})


@pytest.mark.nightly
def test_the_roots_own_repositories_are_used_by_default(host):
    place = host.root / "etc/yum.repos.d"
    place.mkdir(parents=True)
    (definition,) = host.repository.definitions.iterdir()
    (place / "own.repo").write_text(definition.read_text())
    host.manager = Dnf(host.root)
    deploy(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


@pytest.mark.parametrize("remove", [(), pytest.param(("bar",), marks=pytest.mark.nightly)])
def test_a_file_that_rpm_cannot_write_is_named(host, begin, remove):
    begin(bar="1.0")
    (host.root / "opt/foo/version/a directory").mkdir(parents=True)
    with pytest.raises(
        PackageError, match=r"cannot write a file of a package: .*/opt/foo/version.*: cpio: .*; move"
    ):
        deploy(host, {"foo": "1.0"}, *remove)
    assert host.installed == {"bar-1.0-1.noarch"}


@pytest.mark.parametrize("remove", [(), pytest.param(("bar",), marks=pytest.mark.nightly)])
def test_a_failed_scriptlet_is_found_whatever_the_host_wants_dnf_to_print(host, begin, remove):
    begin(bar="1.0")
    quiet = "debuglevel=0\nerrorlevel=0\nrpmverbosity=critical\ncolor=always\n"
    (state_directory(host) / "home/dnf.conf").write_text(f"[main]\n{quiet}")
    with pytest.raises(
        PackageError, match=r"scriptlet failed: .*the disk is on fire; all packages were rolled back"
    ):
        deploy(host, {"last-aid": "2.0"}, *remove)
    assert host.installed == {"bar-1.0-1.noarch"}


@pytest.mark.nightly
def test_a_failed_scriptlet_of_a_rollback_is_logged(host, begin):
    begin(bar="1.0")
    with capture_logs() as logs, pytest.raises(PackageError, match="all packages were rolled back"):
        deploy(host, {"last-aid": "2.0", "farewell": "1.0"})
    (reason,) = [entry["reason"] for entry in logs if entry["event"] == "packages-rollback-with-failure"]
    assert "postun(farewell-1.0-1.noarch)" in reason


def test_a_full_disk_is_named_if_dnf_could_print_nothing(host, monkeypatch):
    full = host.root / "var/lib"
    usage = shutil.disk_usage

    def usage_of(path):
        return usage(path)._replace(free=0 if Path(path) == full else 1 << 30)

    deploy(host, {"bar": "1.0"})
    monkeypatch.setattr(shutil, "disk_usage", usage_of)
    assert str(host.manager._dnf.explain(120, " \n")) == (
        f"the disk is too full: {full} has no space left; free some space"
    )
    assert "dnf" in str(host.manager._dnf.explain(120, "said something"))


def test_a_success_reported_by_dnf_is_verified(host, begin, tmp_path, monkeypatch):
    begin(bar="1.0")
    real = find_program().path
    lazy = tmp_path / "bin" / real.name
    lazy.parent.mkdir()
    lazy.write_text(f'#!/bin/sh\ncase "$*" in *" replay "*) exit 0;; *) exec {real} "$@";; esac\n')
    lazy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{lazy.parent}:{os.environ['PATH']}")
    host.manager = host.new_manager()
    with pytest.raises(
        PackageError, match=r"the packages are wrong: foo: expected foo-1\.0-1\.noarch, found none"
    ):
        deploy(host, {"foo": "1.0"})
    assert host.installed == {"bar-1.0-1.noarch"}


def test_packages_that_another_program_changed_during_the_transaction_stay(host, tmp_path, monkeypatch):
    deploy(host, {"library": "1.0"})
    real = find_program().path
    slow = tmp_path / "bin" / real.name
    slow.parent.mkdir()
    (other,) = host.repository.directory.glob("bar-1.0-*.rpm")
    install = f"rpm --root {host.root} --dbpath /var/lib/rpm -U {other}"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *tsflags=test*) ;; *" replay "*) {install};; esac\nexec {real} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    with capture_logs() as logs:
        deploy(host, {"foo": "1.0"}, "library")
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}
    (event,) = [entry for entry in logs if entry["event"] == "packages-changed-by-others"]
    assert event["differences"] == ("bar: expected none, found bar-1.0-1.noarch",)


#: Holds the lock of dnf 5 as another dnf would: PATH.
LOCK_HOLDER = """\
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    input()
"""


@contextlib.contextmanager
def locked_dnf_5(host):
    """Hold the lock of dnf 5 in another program."""
    lock = host.root / "var/lib/dnf/system-repo.lock"
    lock.parent.mkdir(exist_ok=True)
    argv = [sys.executable, "-c", LOCK_HOLDER, str(lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield
        other.communicate(b"\n")


def test_a_commit_is_tried_again_while_another_program_holds_the_lock_of_dnf_5(host, begin):
    begin(foo="1.0")
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    ticks = []
    impatient = Dnf(host.root, host.repositories, patience=0.5, tick=lambda: ticks.append("tick"))
    refusal = "another program uses dnf: it holds /.*/system-repo.lock; try again"
    with locked_dnf_5(host), pytest.raises(PackageError, match=refusal) as info:
        impatient.commit(transaction)
    assert info.value.retry_helps
    assert ticks
    assert host.installed == {"foo-1.0-1.noarch"}
    deploy(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


@pytest.mark.nightly
def test_a_rollback_is_tried_again_while_another_program_holds_the_lock_of_dnf_5(host, begin):
    begin(foo="1.0")
    host.crash({"foo": "1.1", "slow": "1.0"})
    wait_until(lambda: "foo-1.1-1.noarch" in host.installed, "the dnf of the dead agent has ended")
    ticks = []
    impatient = Dnf(host.root, host.repositories, patience=0.5, tick=lambda: ticks.append("tick"))
    with locked_dnf_5(host), pytest.raises(PackageError, match=r"rolled back: .*another program uses dnf"):
        impatient.recover()
    assert ticks
    assert "foo-1.1-1.noarch" in host.installed
    host.manager.recover()
    assert host.installed == {"foo-1.0-1.noarch"}


@pytest.mark.nightly
def test_a_commit_succeeds_even_if_its_files_cannot_be_cached(host):
    transaction = host.manager.prepare(change({"foo": "1.0"}))
    (state_directory(host) / "kept").write_text("a file where a directory is to be")
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


def test_a_package_manager_commits_only_its_own_transactions(host):
    with pytest.raises(TypeError, match="expected a transaction prepared by dnf"):
        host.manager.commit(NoTransaction())


def test_a_damaged_journal_is_an_error(host, begin):
    begin(foo="1.0")
    (state_directory(host) / "journal.json").write_text("{")
    with pytest.raises(PackageError, match=r"journal\.json cannot be read.*remove the file"):
        host.manager.recover()


def test_a_full_or_unwritable_disk_is_a_package_error(tmp_path):
    (tmp_path / "var").write_text("a file where a directory is to be")
    with pytest.raises(PackageError, match="cannot write"):
        Dnf(tmp_path).installed()


def shadow(monkeypatch, directory, said):
    """Put programs that report these versions before the real dnf on the PATH."""
    directory.mkdir(exist_ok=True)
    for name, version in said.items():
        (directory / name).write_text(f"#!/bin/sh\necho '{version}'\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.mark.parametrize("said", ["dnf5 version 6.0.0", "3.1.0", ""])
def test_a_dnf_of_another_generation_is_refused(host, tmp_path, monkeypatch, said):
    shadow(monkeypatch, tmp_path / "bin", dict.fromkeys(("dnf", "dnf5", "dnf-3"), said))
    with pytest.raises(PackageError, match="expected dnf 4 or dnf 5, found"):
        host.new_manager().prepare(change({"foo": "1.0"}))


def test_a_dnf_of_another_generation_is_passed_over(tmp_path, monkeypatch):
    shadow(monkeypatch, tmp_path / "bin", {"dnf": "3.1.0", "dnf5": "dnf5 version 5.4.6.0"})
    found = find_program()
    assert (found.path.name, found.version, found.generation) == ("dnf5", "5.4.6.0", 5)


def test_a_program_that_fails_once_is_tried_again(tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    names = ("dnf", "dnf5", "dnf-3", "rpm")
    shadow(monkeypatch, tmp_path / "bin", dict.fromkeys(names, "4.24.0"))
    for name in names:
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\ntest ! -e {broken} || {{ echo no library >&2; exit 127; }}\necho 4.24.0\n")
    broken.touch()
    with pytest.raises(
        PackageError, match=r"found a dnf that fails \(.*/dnf --version failed .*: no library\)"
    ) as info:
        find_program()
    assert info.value.retry_helps
    found, missing = command.tools()
    assert found == ""
    assert [message.partition(":")[0] for message in missing] == [
        f"expected dnf 4 or dnf 5, found a dnf that fails ({tmp_path}/bin/dnf --version failed with status 127",
        "cannot use rpm",
    ]
    broken.unlink()
    assert find_program().version == "4.24.0"
    assert command.tools()[0] == f"dnf 4.24.0 as {tmp_path}/bin/dnf, rpm 4.24.0 as {tmp_path}/bin/rpm"


def test_an_upgrade_of_dnf_is_noticed(tmp_path, monkeypatch):
    command_line = Dnf(tmp_path)._dnf
    shadow(monkeypatch, tmp_path / "bin", {"dnf": "4.24.0"})
    assert (command_line.version, command_line.replays.generation) == ("4.24.0", 4)
    assert "--use-host-config" not in command_line._argv()
    shadow(monkeypatch, tmp_path / "bin", {"dnf": "dnf5 version 5.4.6.0"})
    assert (command_line.version, command_line.replays.generation) == ("5.4.6.0", 5)
    assert "--use-host-config" in command_line._argv()


@pytest.mark.nightly
def test_a_transaction_that_another_generation_of_dnf_prepared_is_committed(host, begin):
    begin(foo="1.0", bar="1.0")
    transaction = host.manager.prepare(change({"foo": "1.1"}, "bar"))
    other = Replay(["--no-such-option"], alone=True, generation=9 - GENERATION)
    host.manager.commit(dataclasses.replace(transaction, replay=other))
    assert host.installed == {"foo-1.1-1.noarch"}


def test_the_error_on_a_machine_without_rpm_names_the_configuration_key(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackageError, match="packages = none"):
        Dnf(tmp_path).installed()


def test_the_machines_own_root_uses_the_machines_dnf_configuration():
    dnf = Dnf(Path("/"), ("extra",))._dnf
    argv = dnf._argv("history", "replay", "plan")
    isolating = ("installroot", "releasever", "config")
    assert not [argument for argument in argv if any(option in argument for option in isolating)]
    assert "--enablerepo=extra" in argv
    assert dnf.env["HOME"] == os.environ["HOME"]
    assert command._release()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "damage",
    [
        lambda script: script.unlink(),
        lambda script: script.write_text(""),
        lambda script: script.chmod(0o644),
        lambda script: (script.unlink(), script.mkdir()),
    ],
)
def test_a_damaged_script_of_a_package_is_reported(host, damage):
    deploy(host, {"service": "1.0", "bar": "1.0"})
    script = host.root / "opt/service/bin/zookeeper-deploy"
    script.write_text("changed by hand, which is allowed\n")
    assert host.manager.lost_scripts(host.manager.installed()) == frozenset()
    damage(script)
    assert host.manager.lost_scripts(host.manager.installed()) == {"service"}


@pytest.mark.nightly
@pytest.mark.parametrize("removed", [(), ("bar",)])
def test_the_oldest_of_too_many_kernel_modules_is_removed_as_dnf_removes_it(host, tmp_path, removed):
    host.repository.add(
        [
            AvailablePackage(
                name="kmod", version=version, arch="x86_64", directory=f"kmod-{version}", provides=(KERNEL_MODULE,)
            ).build(tmp_path)
            for version in ("1.2", "1.3")
        ]
    )
    deploy(host, {"bar": "1.0"})
    for version in ("1.0", "1.1", "1.2"):
        host.put("kmod", version, "x86_64")
    deploy(host, {"kmod": "1.3"}, *removed)
    assert host.installed - {"bar-1.0-1.noarch"} == {f"kmod-1.{number}-1.x86_64" for number in (1, 2, 3)}


@pytest.mark.nightly
def test_the_configuration_of_dnf_names_further_packages_that_are_installed_beside_others(host):
    database = host.manager._database
    defaults = database.kept_beside()
    assert "installonlypkg(kernel-module)" in defaults
    for name, text in {
        "dnf.conf": "[main]\ninstallonlypkgs = foo, kmod-vendor\n  bar\n",
        "libdnf5.conf.d/broken.conf": "installonlypkgs=nothing\n",
        "libdnf5.conf.d/vendor.conf": "[main]\ninstallonlypkgs=library\n",
        "libdnf5.conf.d/other.conf": "[main]\nbest=1\ninstallonlypkgs\n",
    }.items():
        file = host.root / "etc/dnf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert database.kept_beside() - defaults == {"foo", "kmod-vendor", "bar", "library"}
    host.put("foo", "1.0")
    assert host.manager.installonly() == {"foo"}


@pytest.mark.nightly
def test_no_architecture_is_lost_when_only_the_other_one_lags_behind(host):
    host.put("twin", "1.0", "i686")
    host.put("twin", "1.1", "x86_64")
    if GENERATION == 4:
        deploy(host, {"twin": "1.1"})
        assert host.installed == {"twin-1.1-1.i686", "twin-1.1-1.x86_64"}
        return
    with pytest.raises(PackageError, match="dnf 5"):  # its test finds that rpm would remove the other one
        deploy(host, {"twin": "1.1"})
    assert host.installed == {"twin-1.0-1.i686", "twin-1.1-1.x86_64"}

"""What only real rpm and dnf can show."""

import contextlib
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest

from support.offers import Offer
from support.rpm_hosts import RpmHost, change
from support.waiting import wait_until
from zkdeployment.adapters import process
from zkdeployment.adapters.packages import command
from zkdeployment.adapters.packages.dnf import Dnf
from zkdeployment.adapters.packages.none import NoTransaction
from zkdeployment.adapters.packages.package_cache import KeptFiles
from zkdeployment.errors import PackageError, ShutdownError


@pytest.fixture
def host(tmp_path, rpm_repository):
    return RpmHost(tmp_path, rpm_repository)


def make(host, want, *remove: str):
    host.manager.commit(host.manager.prepare(change(want, *remove)))


def state(host):
    return host.root / "var/lib/zkdeployment/packages"


def kept(host):
    return {file.name for file in (state(host) / "kept").glob("*.rpm")}


def left_over(host):
    return {path.name for path in state(host).iterdir()} - {"home", "kept", "originals", "back.json", "back.txt"}


def dnf_of(host):
    """The running dnf that replays a transaction of this host."""
    for running in psutil.process_iter(["cmdline"]):
        words = running.info["cmdline"] or []
        if "replay" in words and any(str(host.root) in word for word in words):
            return running
    return None


@contextlib.contextmanager
def counted_programs(monkeypatch):
    """Collect the programs that are run."""
    programs = []
    for name in ("run", "run_apart"):
        real = getattr(process, name)

        def spy(argv, real=real, **keywords):
            programs.append(argv[0])
            return real(argv, **keywords)

        monkeypatch.setattr(process, name, spy)
    yield programs
    monkeypatch.undo()


def test_what_is_there_is_found_without_dnf(host, monkeypatch):
    make(host, {"foo": "1.1"})
    with counted_programs(monkeypatch) as programs:
        make(host, {"foo": "1.1"}, "bar")
    assert set(programs) == {"rpm"}


def test_a_change_of_any_size_takes_two_calls_of_dnf(host, monkeypatch):
    make(host, {"foo": "1.0", "bar": "1.0"})
    with counted_programs(monkeypatch) as programs:
        make(host, {"foo": "1.1", "bar": "2.0", "library": "2.0", "foo-1.1": None})
    assert programs.count("dnf") == 2


def test_the_files_of_what_is_installed_are_kept_and_no_others(host):
    make(host, {"foo": "1.0", "bar": "1.0"})
    make(host, {"foo": "1.1"}, "bar")
    assert kept(host) == {"foo-1.1-1.noarch.rpm"}
    assert left_over(host) == set()


def test_what_is_kept_is_its_owners_alone(host):
    make(host, {"foo": "1.0"})
    assert state(host).stat().st_mode & 0o077 == 0


def test_what_was_published_a_moment_ago_is_found(host):
    newer = next(host.repository.directory.glob("foo-1.1-1.*")).read_bytes()
    host.withdraw("foo", "1.1")
    make(host, {"foo": "1.0"})
    (host.root.parent / "foo-1.1-1.noarch.rpm").write_bytes(newer)
    host.repository.add([host.root.parent / "foo-1.1-1.noarch.rpm"])
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}


def test_a_refused_file_does_not_stay(host):
    with pytest.raises(PackageError, match=r"unsigned-1\.0-1\.noarch\.rpm is not signed"):
        host.manager.prepare(change({"unsigned": "1.0"}))
    assert left_over(host) == set()
    assert not list(state(host).rglob("unsigned*"))


def test_a_repository_that_asks_for_no_signatures_needs_none_not_even_to_go_back(host):
    (definition,) = host.repository.definitions.iterdir()
    definition.write_text(definition.read_text().replace("gpgcheck=1", "gpgcheck=0"))
    make(host, {"unsigned": "1.0"})
    transaction = host.manager.prepare(change({"first-aid": "1.0"}, "unsigned"))
    with pytest.raises(PackageError, match=r"the disk is on fire; the packages are what they were before"):
        host.manager.commit(transaction)
    assert host.installed == {"unsigned-1.0-1.noarch"}


def test_what_others_installed_is_fetched_before_it_is_replaced(host):
    host.put("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    assert transaction.reversible
    assert kept(host) == {"foo-1.0-1.noarch.rpm"}
    host.withdraw("foo", "1.0")
    with pytest.raises(PackageError, match="scriptlet failed"):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


def test_what_no_repository_has_cannot_be_gone_back_to_and_that_is_known_before(host):
    host.put("foo", "1.0")
    host.withdraw("foo", "1.0")
    assert not host.manager.prepare(change({"foo": "1.1"})).reversible


def test_without_createrepo_that_is_known_before_and_the_way_back_is_by_the_repositories(host, monkeypatch):
    make(host, {"foo": "1.0"})
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == "createrepo_c" else which(name, **more)
    )
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    assert not transaction.reversible
    with pytest.raises(PackageError, match="the packages are what they were before"):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


def test_a_failure_to_go_back_is_told_and_tried_again_by_the_next_agent(host):
    host.put("foo", "1.0")
    lost = next(host.repository.directory.glob("foo-1.0-*")).read_bytes()
    host.withdraw("foo", "1.0")
    transaction = host.manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    with pytest.raises(PackageError, match=r"could not be put back: foo: expected foo-1\.0-1") as info:
        host.manager.commit(transaction)
    assert info.value.changed
    assert f"{state(host)}/journal.json lists the packages as they were" in str(info.value)
    with pytest.raises(
        PackageError, match=r"journal\.json .*: make those packages available to dnf and resume"
    ) as info:
        host.new_manager().recover()
    assert info.value.changed
    (state(host) / "kept").mkdir()
    (state(host) / "kept/foo-1.0-1.noarch.rpm").write_bytes(lost)
    host.new_manager().recover()
    assert host.installed == {"foo-1.0-1.noarch"}


def test_the_files_of_two_epochs_of_a_package_are_kept_apart(host, tmp_path):
    (tmp_path / "more").mkdir()
    offers = [Offer(name="aged", version="1.0", epoch=epoch) for epoch in (0, 1, 2)]
    database = host.manager._database
    store = KeptFiles(tmp_path / "store", database)
    for offer in offers:
        (tmp_path / "more" / str(offer.epoch)).mkdir()
        store.keep(database.read([offer.build(tmp_path / "more" / str(offer.epoch))]))
    packages = {offer.package for offer in offers}
    assert {file.package for file in store.find(packages)} == packages
    store.prune({"aged": (offers[1].package,)})
    assert offers[1].package in {file.package for file in store.find(packages)}
    assert store.find({offers[2].package}) == []


def test_a_kept_file_with_the_name_that_older_agents_gave_it_is_found(host):
    make(host, {"epochal": "1.0"})
    (file,) = (state(host) / "kept").glob("epochal*.rpm")
    assert file.name == "epochal-1.0-1.noarch.epoch1.rpm"
    file.rename(file.with_name("epochal-1.0-1.noarch.rpm"))
    host.withdraw("epochal", "1.0")
    transaction = host.manager.prepare(change({}, "epochal"))
    assert transaction.reversible
    host.manager.commit(transaction)
    assert kept(host) == set()


def test_a_package_of_the_system_can_be_put_back_when_no_repository_has_it_any_more(host):
    host.put("bar", "1.0")
    host.manager.commit(host.manager.prepare(change({"bar": "2.0", "foo": "1.0"}, preserve=("bar",))))
    host.withdraw("bar", "1.0")
    make(host, {"foo": "1.1"})
    assert (state(host) / "originals/bar-1.0-1.noarch.rpm").exists()
    make(host, {"bar": "0:1.0-1"})
    assert host.installed == {"bar-1.0-1.noarch", "foo-1.1-1.noarch"}
    assert not list((state(host) / "originals").glob("*.rpm"))


def test_a_damaged_kept_file_is_fetched_again(host):
    make(host, {"foo": "1.0", "bar": "1.0"})
    file = state(host) / "kept/foo-1.0-1.noarch.rpm"
    file.write_bytes(file.read_bytes()[:1000])
    assert host.manager.prepare(change({"foo": "1.1", "bar": "2.0"})).reversible
    assert file.stat().st_size > 1000


@contextlib.contextmanager
def served(host):
    """Serve the host's repository by HTTP while inside; give a package manager that is configured with its URL."""
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


@pytest.mark.parametrize("removed", [(), ("bar",)])
def test_the_server_may_go_down_once_all_is_prepared(host, removed):
    make(host, {"foo": "1.0", "bar": "1.0"})
    with served(host) as manager:
        transaction = manager.prepare(change({"foo": "1.1", "library": "2.0"}, *removed))
    manager.commit(transaction)
    assert host.installed - {"bar-1.0-1.noarch"} == {"foo-1.1-1.noarch", "library-2.0-1.noarch"}


def test_neither_removing_nor_going_back_needs_a_server(host):
    make(host, {"foo": "1.0", "bar": "1.0"})
    with served(host) as manager:
        removal = manager.prepare(change({}, "bar"))
    manager.commit(removal)
    assert host.installed == {"foo-1.0-1.noarch"}
    (host.root.parent / "server.log").unlink()
    with served(host) as manager:
        transaction = manager.prepare(change({"foo": "1.1", "first-aid": "1.0"}))
    with pytest.raises(PackageError, match="the packages are what they were before"):
        manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


def test_a_prepared_transaction_needs_neither_dnfs_cache_nor_a_repository(host):
    make(host, {"foo": "1.0", "bar": "1.0"})
    transaction = host.manager.prepare(change({"foo": "1.1", "library": "2.0"}, "bar"))
    for cache in [path for name in ("dnf", "yum") for path in host.root.rglob(f"cache/{name}")]:
        shutil.rmtree(cache)
    host.withdraw("foo", "1.1")
    host.lose_repository()
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch", "library-2.0-1.noarch"}
    assert left_over(host) == set()


def test_a_prepared_transaction_survives_a_refreshed_repository(host):
    transaction = host.manager.prepare(change({"foo": "1.1"}))
    host.withdraw("foo", "1.1")
    make(host, {"library": "2.0"})
    host.drop("library")
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.1-1.noarch"}


def test_what_others_installed_is_fetched_to_be_installed_again(host):
    host.put("service", "1.0")
    host.lose_files("service")
    host.manager.commit(host.manager.prepare(change(again=("service",))))
    assert (host.root / "opt/service/bin/zookeeper-deploy").read_text() == "deploy 1.0\n"
    assert kept(host) == {"service-1.0-1.noarch.rpm"}


def test_what_nobody_has_cannot_be_installed_again_and_that_is_known_before(host):
    host.put("foo", "1.0")
    host.put("bar", "1.0")
    host.withdraw("foo", "1.0")
    with pytest.raises(PackageError, match=r"cannot install foo-1\.0-1\.noarch again.*publish it"):
        host.manager.prepare(change(again=("foo", "bar")))
    with pytest.raises(PackageError, match=r"cannot install foo-1\.0-1\.noarch again.*publish it"):
        host.manager.prepare(change(again=("foo",)))
    assert left_over(host) == set()


def test_dnf_is_neither_cut_short_by_its_agents_death_nor_forgotten(host):
    make(host, {"foo": "1.0"})
    host.crash({"foo": "1.1", "slow": "1.0"})
    running = dnf_of(host)
    assert running is not None
    host.new_manager().recover()
    assert not running.is_running()
    assert host.installed == {"foo-1.0-1.noarch"}
    assert left_over(host) == set()


def test_a_killed_dnf_leaves_no_package_twice(host):
    make(host, {"foo": "1.0", "bar": "1.0"})
    host.start_agent({"foo": "1.1", "bar": "2.0", "slow": "1.0"})
    dnf_of(host).kill()
    wait_until(lambda: not psutil.pid_exists(host.agent) or dead(host.agent), "the agent has gone back")
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}
    assert "was ended by signal 9" in (host.root.parent / "agent.log").read_text()


def dead(pid):
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_what_an_interrupted_program_left_twice_is_put_right(host):
    make(host, {"foo": "1.0"})
    (newer,) = host.repository.directory.glob("foo-1.1-1.noarch.rpm")
    host.rpm("-i", "--force", "--justdb", str(newer))
    assert host.installed == {"foo-1.0-1.noarch", "foo-1.1-1.noarch"}
    make(host, {"foo": "1.1"})
    assert host.installed == {"foo-1.1-1.noarch"}
    host.rpm("-i", "--force", "--justdb", *map(str, host.repository.directory.glob("foo-1.0-1.noarch.rpm")))
    make(host, {"foo": "1.4-1"})
    assert host.installed == {"foo-1.4-1.noarch"}


def test_another_dnf_is_waited_for(host):
    make(host, {"foo": "1.0"})
    host.start_agent({"slow": "1.0"})
    patient = Dnf(host.root, host.repositories, patience=30)

    def install_bar():
        try:
            patient.commit(patient.prepare(change({"bar": "1.0"})))
        except PackageError as error:
            if not error.retry_helps:
                raise
            return False  # the other one wrote between our reading and its end: prepare anew
        return True

    wait_until(install_bar, "the other dnf is done, and ours too")
    assert {"foo-1.0-1.noarch", "bar-1.0-1.noarch"} <= host.installed


def test_a_repository_that_is_out_of_reach_for_a_moment_is_tried_again(host, monkeypatch):
    make(host, {"foo": "1.0"})
    host.lose_repository()
    run, failed = process.run, []

    def come_back_later(argv, **options):
        done = run(argv, **options)
        if done.status and argv[0] == "dnf":
            failed.append(done)
            host.find_repository()
        return done

    monkeypatch.setattr(process, "run", come_back_later)
    make(host, {"foo": "1.1"})
    assert len(failed) == 1
    assert host.installed == {"foo-1.1-1.noarch"}


def test_a_preparation_ends_when_the_agent_has_to(host, tmp_path):
    repositories = tmp_path / "silent"
    repositories.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        text = f"[silent]\nname=silent\nbaseurl={address}\ngpgcheck=0\n"
        (repositories / "silent.repo").write_text(text)

        def tick():
            raise ShutdownError("enough")

        with pytest.raises(ShutdownError):
            Dnf(host.root, (str(repositories),), tick=tick).prepare(change({"foo": "1.0"}))
    everybody = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]))
    assert not [words for words in everybody if any(str(repositories) in word for word in words)]
    assert left_over(host) == set()


def test_a_repository_whose_packages_no_key_can_check_is_told(host):
    with pytest.raises(PackageError, match=r"no key to check packages with: .*; import the repository's key"):
        Dnf(host.root, ("http://127.0.0.1:9/",)).prepare(change({"foo": "1.0"}))


def test_the_agents_python_is_not_that_of_dnf(host, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    command._version.cache_clear()
    make(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


def test_two_packages_with_the_same_file_are_refused_before_anything_changes(host):
    make(host, {"foo": "1.0"})
    with pytest.raises(PackageError, match=r"two packages own the same file: .*/opt/foo/version"):
        host.manager.prepare(change({"squatter": "2.0"}))
    make(host, {"squatter": "2.0"}, "foo")
    assert host.installed == {"squatter-2.0-1.noarch"}


def test_two_hosts_on_one_machine_have_nothing_to_do_with_each_other(host, tmp_path, rpm_repository):
    (tmp_path / "other").mkdir()
    other = RpmHost(tmp_path / "other", rpm_repository)
    make(host, {"foo": "1.0"})
    make(other, {"foo": "1.1"})
    assert host.installed == {"foo-1.0-1.noarch"}
    assert other.installed == {"foo-1.1-1.noarch"}


def test_a_package_for_another_kind_of_machine_is_named_with_it(host, tmp_path):
    spec = tmp_path / "alien.spec"
    spec.write_text(
        "Name: alien\nVersion: 1.0\nRelease: 1\nSummary: For tests\nLicense: MIT\nAutoReqProv: no\n"
        "%description\nFor tests.\n%install\nmkdir -p %{buildroot}/opt/alien\n%files\n/opt/alien\n"
    )
    define = ["--define", f"_topdir {tmp_path}/built"]
    process.run(["rpmbuild", "-bb", "--target", "s390x-linux", *define, str(spec)], timeout=60).check()
    host.repository.add([*(tmp_path / "built/RPMS/s390x").glob("*.rpm")])
    with pytest.raises(PackageError, match=r"alien-1\.0-1\.s390x does not have a compatible architecture"):
        make(host, {"alien": "1.0"})
    assert host.installed == set()


@pytest.mark.parametrize("other", ["unsigned-1.0-1.noarch.rpm", "foo-1.0-1.noarch.rpm"])
def test_files_that_are_not_those_that_were_checked_are_not_installed(host, other):
    make(host, {"foo": "1.0", "bar": "1.0"})
    transaction = host.manager.prepare(change({"foo": "1.1"}, "bar"))
    (prepared,) = transaction.directory.glob("foo-1.1*.rpm")
    prepared.write_bytes((host.repository.directory / other).read_bytes())
    host.lose_repository()
    with pytest.raises(PackageError):
        host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch", "bar-1.0-1.noarch"}


def test_repositories_may_be_enabled_by_their_id(host):
    (definition,) = host.repository.definitions.iterdir()
    definition.write_text(definition.read_text().replace("enabled=1", "enabled=0"))
    with pytest.raises(PackageError, match="there is no repository to take packages from"):
        make(host, {"foo": "1.0"})
    host.manager = Dnf(host.root, (*host.repositories, "sandbox"))
    make(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


def test_the_roots_own_repositories_count_without_being_named(host):
    place = host.root / "etc/yum.repos.d"
    place.mkdir(parents=True)
    (definition,) = host.repository.definitions.iterdir()
    (place / "own.repo").write_text(definition.read_text())
    host.manager = Dnf(host.root)
    make(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


def test_dnfs_word_is_not_taken_for_it(host, tmp_path, monkeypatch):
    make(host, {"bar": "1.0"})
    lazy = tmp_path / "bin/dnf"
    lazy.parent.mkdir()
    real = shutil.which("dnf")
    lazy.write_text(f'#!/bin/sh\ncase "$*" in *"history replay"*) exit 0;; *) exec {real} "$@";; esac\n')
    lazy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{lazy.parent}:{os.environ['PATH']}")
    host.manager = host.new_manager()
    with pytest.raises(
        PackageError, match=r"dnf did not do what was asked: foo: expected foo-1\.0-1\.noarch, found none"
    ):
        make(host, {"foo": "1.0"})
    assert host.installed == {"bar-1.0-1.noarch"}


def test_a_commit_is_good_even_if_its_files_cannot_be_kept(host):
    transaction = host.manager.prepare(change({"foo": "1.0"}))
    (state(host) / "kept").write_text("a file where a directory is to be")
    host.manager.commit(transaction)
    assert host.installed == {"foo-1.0-1.noarch"}


def test_only_its_own_transactions_are_committed(host):
    with pytest.raises(TypeError, match="expected a transaction prepared by dnf"):
        host.manager.commit(NoTransaction())


def test_a_journal_that_cannot_be_read_is_not_ignored(host):
    make(host, {"foo": "1.0"})
    (state(host) / "journal.json").write_text("{")
    with pytest.raises(PackageError, match=r"cannot read .*journal\.json.*remove the file"):
        host.manager.recover()


def test_a_full_or_unwritable_disk_is_a_package_error(tmp_path):
    (tmp_path / "var").write_text("a file where a directory is to be")
    with pytest.raises(PackageError, match="cannot write"):
        Dnf(tmp_path).installed()


def shadow(monkeypatch, directory, says, *names):
    """Put programs before dnf on the PATH that say they are another dnf."""
    directory.mkdir()
    for name in names:
        (directory / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.mark.parametrize("says", ["dnf5 version 5.2.6.2", ""])
def test_a_dnf_of_another_generation_is_refused(host, tmp_path, monkeypatch, says):
    shadow(monkeypatch, tmp_path / "bin", says, "dnf", "dnf-3")
    with pytest.raises(PackageError, match="expected dnf 4, found"):
        host.new_manager().prepare(change({"foo": "1.0"}))


def test_dnf_4_is_found_behind_a_newer_one(host, tmp_path, monkeypatch):
    shadow(monkeypatch, tmp_path / "bin", "dnf5 version 5.2.6.2", "dnf")
    host.manager = host.new_manager()
    make(host, {"foo": "1.0"})
    assert host.installed == {"foo-1.0-1.noarch"}


def test_a_machine_without_rpm_is_told_what_to_configure(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackageError, match="packages = none"):
        Dnf(tmp_path).installed()


def test_the_whole_machine_is_driven_with_its_own_configuration():
    dnf = Dnf(Path("/"), ("extra",))._dnf
    argv = dnf._argv("history", "replay", "plan")
    assert not [word for word in argv if "installroot" in word or "releasever" in word or "config" in word]
    assert "--enablerepo=extra" in argv
    assert dnf.env["HOME"] == os.environ["HOME"]
    assert command._release()


@pytest.mark.parametrize(
    "damage",
    [
        lambda script: script.unlink(),
        lambda script: script.write_text(""),
        lambda script: script.chmod(0o644),
        lambda script: (script.unlink(), script.mkdir()),
    ],
)
def test_a_script_that_cannot_run_though_its_package_brought_it_so_is_noticed(host, damage):
    make(host, {"service": "1.0", "bar": "1.0"})
    script = host.root / "opt/service/bin/zookeeper-deploy"
    script.write_text("changed by hand, which is nobody else's business\n")
    assert host.manager.lost_scripts(host.manager.installed()) == frozenset()
    damage(script)
    assert host.manager.lost_scripts(host.manager.installed()) == {"service"}

"""The installation of checkouts, with real directories and a real repository."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from support.repository import Repository
from support.waiting import wait_until
from zkdeployment.agent.checkouts.places import SYSTEMS, CheckoutPlaces, remembered_version
from zkdeployment.base.errors import CheckoutError, ScriptError

BUILD = "#!/bin/sh\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    repository.commit({"file": "one"})
    repository.git("tag", "1")
    repository.write({"stage-build": BUILD})
    (repository.directory / "stage-build").chmod(0o755)
    repository.commit({"file": "two"})
    repository.git("tag", "2")
    return repository


@pytest.fixture
def opt(tmp_path: Path) -> Path:
    return tmp_path / "root/opt"


@pytest.fixture
def places(opt: Path) -> CheckoutPlaces:
    return CheckoutPlaces(opt.parent, gap=0)


def no_build(script: str, _directory: str) -> None:
    raise AssertionError(script)


def build(_script: str, _directory: str) -> None:
    pass


def fail(_script: str, directory: str) -> None:
    (Path(directory) / "half-built").touch()
    raise ScriptError("stage-build failed with exit status 3", "the end of its output")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def install(places, version, build=build, package="foo"):
    places.prepare(package, version, replaces=True)
    places.install(package, build)


def test_a_preparation_does_not_change_the_installed_software(repository, opt, places):
    version = f"git:{repository.url}#1"
    places.prepare("foo", version, replaces=False)
    assert names(opt) == [".zkdeployment"]
    places.install("foo", no_build)
    assert names(opt) == ["foo"]
    assert (opt / "foo/file").read_text() == "one"
    assert remembered_version(opt / "foo") == version


def test_the_build_script_is_run_in_place(repository, opt, places):
    calls = []
    install(places, f"git:{repository.url}#2", lambda *arguments: calls.append(arguments))
    assert calls == [(str(opt / "foo/stage-build"), str(opt / "foo"))]


def test_another_version_replaces_the_checkout(repository, opt, places):
    install(places, f"git:{repository.url}#1")
    (opt / "foo/built").touch()
    install(places, f"git:{repository.url}#2")
    assert (opt / "foo/file").read_text() == "two"
    assert not (opt / "foo/built").exists()
    assert names(opt) == ["foo"]


def test_the_same_version_is_updated_and_built_again(repository, opt, places):
    version = f"git:{repository.url}#main"
    install(places, version)
    (opt / "foo/built").touch()
    repository.commit({"file": "three"})
    calls = []
    install(places, version, lambda *arguments: calls.append(arguments))
    assert (opt / "foo/file").read_text() == "three"
    assert (opt / "foo/built").exists()
    assert len(calls) == 1


@pytest.mark.parametrize("damaged", ["opt/foo/.git/HEAD", "var/lib/zkdeployment/checkouts/foo/copy/.git/HEAD"])
def test_a_damaged_repository_is_replaced(repository, opt, places, damaged):
    version = f"git:{repository.url}#1"
    install(places, version)
    (opt.parent / damaged).write_text("rubbish")
    (opt / "foo/built").touch()
    install(places, version)
    assert (opt / "foo/file").read_text() == "one"
    assert (opt / "foo/.git/HEAD").read_text() != "rubbish"
    assert (opt / "foo/built").exists()


def test_a_failed_build_restores_the_previous_checkout(repository, opt, places):
    install(places, f"git:{repository.url}#1")
    with pytest.raises(ScriptError) as caught:
        install(places, f"git:{repository.url}#2", fail)
    assert caught.value.tail == "the end of its output"
    assert names(opt) == ["foo"]
    assert (opt / "foo/file").read_text() == "one"
    assert remembered_version(opt / "foo") == f"git:{repository.url}#1"
    assert not (opt / "foo/half-built").exists()


def test_a_failed_first_build_leaves_no_files(repository, opt, places):
    with pytest.raises(ScriptError):
        install(places, f"git:{repository.url}#2", fail)
    assert names(opt) == []


@pytest.mark.parametrize("way", ["mode", "directory", "out"])
def test_an_invalid_build_script_is_refused(repository, opt, places, way):
    script = repository.directory / "stage-build"
    script.unlink()
    match way:
        case "mode":
            script.write_text(BUILD)
        case "directory":
            repository.write({"stage-build/x": "x"})
        case "out":
            script.symlink_to("/bin/true")
    repository.commit({})
    problem = "is not executable" if way == "mode" else "is no file inside the checkout"
    with pytest.raises(ScriptError, match=problem):
        install(places, f"git:{repository.url}#main", no_build)
    assert not (opt / "foo").exists()


def test_an_installed_checkout_is_readable_for_all_users(repository, opt, places, tmp_path):
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)

    def build(_script: str, directory: str) -> None:
        os.umask(0o077)
        (Path(directory) / "private/deep").mkdir(parents=True)
        (Path(directory) / "private/deep/file").touch()
        (Path(directory) / "private/deep/program").touch(mode=0o700)
        (Path(directory) / "link").symlink_to(secret)
        Path(directory).chmod(0o700)

    umask = os.umask(0o022)
    try:
        install(places, f"git:{repository.url}#2", build)
    finally:
        os.umask(umask)

    def mode(name: str) -> int:
        return stat.S_IMODE((opt / "foo" / name).lstat().st_mode)

    assert [mode(name) for name in (".", "private", "private/deep")] == [0o755] * 3
    assert (mode("private/deep/file"), mode("private/deep/program")) == (0o644, 0o755)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_checkout_is_removed_with_its_directory(repository, opt, places):
    install(places, f"git:{repository.url}#1")
    places.remove("foo")
    assert names(opt) == []
    places.remove("foo")


def test_an_unmanaged_directory_is_not_replaced(repository, opt, places):
    (opt / "foo").mkdir(parents=True)
    places.prepare("foo", f"git:{repository.url}#1", replaces=False)
    (opt / "foo/precious").touch()
    with pytest.raises(CheckoutError, match="is in the way: expected a checkout or a managed package"):
        places.prepare("foo", f"git:{repository.url}#1", replaces=False)
    assert names(opt / "foo") == ["precious"]


def test_recovery_restores_a_checkout_after_an_interrupted_installation(repository, opt, places):
    install(places, f"git:{repository.url}#1")
    places.prepare("foo", f"git:{repository.url}#2", replaces=True)
    staging = opt / ".zkdeployment"
    (staging / "before").mkdir(exist_ok=True)

    (opt / "foo").rename(staging / "before/foo")
    places.recover()
    assert (opt / "foo/file").read_text() == "one"
    assert names(opt) == ["foo"]

    places.prepare("foo", f"git:{repository.url}#2", replaces=True)
    (staging / "before").mkdir()
    (opt / "foo").rename(staging / "before/foo")
    (staging / "new/foo").rename(opt / "foo")
    places.recover()
    assert (opt / "foo/file").read_text() == "one"
    assert names(opt) == ["foo"]


def test_recovery_deletes_leftovers(repository, opt, places):
    install(places, f"git:{repository.url}#2")
    (opt / ".zkdeployment/rest/foo").mkdir(parents=True)
    (opt / ".zkdeployment/new/bar").mkdir(parents=True)
    places.recover()
    assert names(opt) == ["foo"]
    assert (opt / "foo/file").read_text() == "two"


def test_recovery_deletes_a_directory_in_which_an_orphaned_process_still_writes(opt, places, tmp_path):
    new = opt / ".zkdeployment/new/foo/deep"
    new.mkdir(parents=True)
    script = tmp_path / "writer"
    script.write_text(f"#!/bin/sh\ni=0\nwhile touch {new}/$i 2>/dev/null; do i=$((i+1)); done\n")
    script.chmod(0o755)
    with subprocess.Popen([str(script)]) as writer:
        wait_until(lambda: len(names(new)) > 3, "the process writes")
        places.recover()
        assert names(opt) == []
        writer.wait()


def test_recovery_creates_no_directories(opt, places):
    places.recover()
    assert not opt.exists()


@pytest.mark.parametrize(
    ("sources", "expected"), [((), r"checkout-sources \(none\)"), (("/srv",), r"checkout-sources \(/srv\)")]
)
def test_a_repository_that_is_not_allowed_is_refused(repository, opt, sources, expected):
    with pytest.raises(CheckoutError, match=f"is not allowed on this host: expected one of {expected}"):
        CheckoutPlaces(opt.parent, sources).prepare("foo", f"git:{repository.url}#1", replaces=False)
    assert names(opt) == []


def test_a_repository_below_an_allowed_source_is_checked_out(repository, opt):
    places = CheckoutPlaces(opt.parent, (str(repository.directory.parent),))
    install(places, f"git:{repository.url}#1")
    assert (opt / "foo/file").exists()


@pytest.mark.parametrize(
    ("package", "version", "message"),
    [
        ("foo", "hg://host/x#1", "unknown scheme 'hg'"),
        ("foo", "1.4", "unknown scheme"),
        ("../foo", "git:/srv/x#1", "is not a package name"),
        (".zkdeployment", "git:/srv/x#1", "is not a package name"),
    ],
)
def test_an_invalid_package_or_version_is_refused(places, package, version, message):
    with pytest.raises(CheckoutError, match=message):
        places.prepare(package, version, replaces=True)


def test_an_unreachable_repository_is_tried_again(repository, opt):
    class Flaky:
        tries = 0

        def check_out(self, checkout, directory):
            self.tries += 1
            if self.tries < 3:
                directory.mkdir()
                error = CheckoutError("unreachable")
                error.retry_helps = True
                raise error
            SYSTEMS["git"]().check_out(checkout, directory)

    install(CheckoutPlaces(opt.parent, systems={"git": Flaky}, gap=0), f"git:{repository.url}#1")
    assert (opt / "foo/file").exists()


def test_an_unwritable_directory_is_an_error(repository, opt):
    opt.parent.mkdir(parents=True)
    opt.touch()
    with pytest.raises(CheckoutError, match="cannot check out foo: Not a directory"):
        CheckoutPlaces(opt.parent).prepare("foo", f"git:{repository.url}#1", replaces=False)


NOBODY = 65534


def give_away(directory: Path) -> None:
    """Make another user the owner of a directory with all its files."""
    for path in (directory, *directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def evil_program(tmp_path: Path) -> tuple[Path, Path]:
    """Return a program that a service's user wrote, and the file that shows that it ran."""
    program, trace = tmp_path / "evil", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {trace}\nexec cat\n")
    program.chmod(0o755)
    return program, trace


@pytest.mark.parametrize("key", ["filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "core.sshCommand"])
def test_the_configuration_of_an_installed_repository_runs_no_programs(repository, opt, places, tmp_path, key):
    version = f"git:{repository.url}#main"
    repository.commit({".gitattributes": "* filter=evil\n"})
    install(places, version)
    give_away(opt / "foo")
    program, trace = evil_program(tmp_path)
    with (opt / "foo/.git/config").open("a") as config:
        section, _, name = key.rpartition(".")
        outer, _, inner = section.partition(".")
        config.write(f'[{outer}{inner and f""" "{inner}" """.rstrip()}]\n\t{name} = {program}\n')
    (opt / "foo/.git/info").mkdir(exist_ok=True)
    (opt / "foo/.git/info/attributes").write_text("* filter=evil\n")
    repository.commit({"file": "three"})
    install(places, version)
    assert not trace.exists()
    assert (opt / "foo/file").read_text() == "three"
    assert (opt / "foo/.git/config").stat().st_uid == os.geteuid()
    assert str(program) not in (opt / "foo/.git/config").read_text()


def test_the_build_of_an_installed_checkout_runs_no_programs_of_the_services_user(repository, opt, places):
    """The repository has no build script; the service's user writes one and a program that builds use."""
    version = f"git:{repository.url}#1"
    install(places, version, no_build)
    give_away(opt / "foo")
    (opt / "foo/stage-build").write_text("#!/bin/sh\n")
    (opt / "foo/stage-build").chmod(0o755)
    os.chown(opt / "foo/stage-build", NOBODY, NOBODY)
    install(places, version, no_build)
    assert (opt / "foo/file").stat().st_uid == os.geteuid()


def test_the_build_sees_no_files_of_other_users_and_these_files_stay(repository, opt, places):
    version = f"git:{repository.url}#2"
    seen: list[list[str]] = []

    def build(_script: str, directory: str) -> None:
        place = Path(directory)
        seen.append(sorted(str(path.relative_to(place)) for path in place.rglob("*") if ".git" not in path.parts))
        (place / "data").mkdir(exist_ok=True)
        (place / "venv").mkdir(exist_ok=True)
        (place / "venv/built").write_text("by root")

    install(places, version, build)
    (opt / "foo/data/state").write_text("precious")
    (opt / "foo/var").mkdir()
    (opt / "foo/var/log").write_text("a line")
    (opt / "foo/venv/stale").write_text("x")
    for name in ("data", "data/state", "var", "var/log", "venv/stale"):
        os.chown(opt / "foo" / name, NOBODY, NOBODY)
    install(places, version, build)
    assert seen == [
        [".zkdeployment-version", "file", "stage-build"],
        [".zkdeployment-version", "file", "stage-build", "venv", "venv/built"],
    ]
    assert (opt / "foo/data/state").read_text() == "precious"
    assert (opt / "foo/data/state").stat().st_uid == NOBODY
    assert (opt / "foo/var/log").read_text() == "a line"
    assert names(opt) == ["foo"]


def test_a_checkout_of_an_older_agent_is_updated_without_its_repository(repository, opt, places, tmp_path):
    version = f"git:{repository.url}#main"
    install(places, version)
    shutil.rmtree(opt.parent / "var")
    give_away(opt / "foo")
    (opt / "foo/data").write_text("precious")
    os.chown(opt / "foo/data", NOBODY, NOBODY)
    program, trace = evil_program(tmp_path)
    subprocess.run(
        ["git", "-C", str(opt / "foo"), "-c", "safe.directory=*", "config", "filter.evil.smudge", str(program)],
        check=True,
    )
    repository.commit({"file": "three", ".gitattributes": "* filter=evil\n"})
    install(places, version)
    assert not trace.exists()
    assert (opt / "foo/file").read_text() == "three"
    assert (opt / "foo/data").read_text() == "precious"


def test_a_killed_agents_move_of_a_users_files_is_completed(repository, opt, places):
    version = f"git:{repository.url}#1"
    install(places, version)
    places.prepare("foo", version, replaces=True)
    staging = opt / ".zkdeployment"
    (staging / "kept").mkdir()
    (opt / "foo/data").write_text("precious")
    os.chown(opt / "foo/data", NOBODY, NOBODY)
    (opt / "foo").rename(staging / "kept/foo")
    (staging / "new/foo").rename(opt / "foo")
    places.recover()
    assert (opt / "foo/data").read_text() == "precious"
    assert names(opt) == ["foo"]


def test_links_of_a_services_user_lead_the_agent_nowhere(repository, opt, places, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").touch(mode=0o600)
    version = f"git:{repository.url}#main"
    repository.commit({"lib/code": "x"})
    install(places, version)
    give_away(opt / "foo")
    shutil.rmtree(opt / "foo/lib")
    (opt / "foo/lib").symlink_to(secret)
    os.chown(opt / "foo/lib", NOBODY, NOBODY, follow_symlinks=False)
    (opt / "foo/.git/x").symlink_to(secret)
    install(places, version)
    assert (opt / "foo/lib/code").read_text() == "x"
    assert stat.S_IMODE((secret / "key").stat().st_mode) == 0o600
    assert names(secret) == ["key"]


def test_a_file_that_a_commit_removed_does_not_stay(repository, opt, places):
    version = f"git:{repository.url}#main"
    repository.commit({"old/module": "x"})
    install(places, version)
    repository.commit({"old/module": None})
    with pytest.raises(ScriptError):
        install(places, version, fail)
    assert (opt / "foo/old/module").exists()
    install(places, version)
    assert not (opt / "foo/old").exists()


def test_a_working_copy_in_a_directory_of_another_user_is_refused(repository, opt, places):
    state = opt.parent / "var/lib/zkdeployment/checkouts"
    state.mkdir(parents=True)
    os.chown(state, NOBODY, NOBODY)
    with pytest.raises(CheckoutError, match="other users may change"):
        places.prepare("foo", f"git:{repository.url}#1", replaces=False)


def test_a_removed_checkout_has_no_working_copy(repository, opt, places):
    install(places, f"git:{repository.url}#1")
    state = opt.parent / "var/lib/zkdeployment/checkouts"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert names(state) == ["foo"]
    places.remove("foo")
    assert names(state) == []


@pytest.mark.parametrize("trick", ["link", "file"])
def test_a_repository_cannot_forge_the_recorded_version(repository, opt, places, tmp_path, trick):
    memory = repository.directory / ".zkdeployment-version"
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    if trick == "link":
        memory.symlink_to(victim)
    else:
        repository.write({".zkdeployment-version": "git:/srv/other#1"})
    repository.commit({})
    install(places, f"git:{repository.url}#main")
    assert remembered_version(opt / "foo") == f"git:{repository.url}#main"
    assert victim.read_text() == "untouched"

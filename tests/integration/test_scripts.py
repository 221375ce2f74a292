"""Scripts explain themselves where nothing is installed; ``test-on`` leaves the machine's files alone."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from support.commands import run
from support.fresh_checkout import environment, make_checkout

PROJECT = Path(__file__).parents[2]

pytestmark = pytest.mark.nightly


@pytest.fixture
def clone(tmp_path):
    """The directory of a fresh clone."""
    for name in ("rpm", "scripts"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    for name in ("src", "tests"):
        (tmp_path / name).symlink_to(PROJECT / name)
    return tmp_path


@pytest.mark.parametrize(
    ("script", "option"),
    [
        ("rpm/build", "DIRECTORY"),
        ("rpm/lock", "newest versions"),
        ("scripts/benchmark", "--agents AGENTS"),
        ("scripts/chaos", "--minutes MINUTES"),
        ("scripts/demo", "--keep"),
        ("scripts/manual", "DIRECTORY"),
        ("scripts/simulate", "--mutations"),
        ("scripts/test", "tests/unit"),
    ],
)
@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_installs_nothing(clone, script, option, words):
    python = Path(sys.base_prefix) / "bin"
    environment = {"PATH": f"{python}:/usr/bin:/bin", "HOME": str(clone), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(clone / script, *words, env=environment)
    assert done.returncode == 0, done.stderr
    assert option in done.stdout
    assert sorted(file.name for file in clone.iterdir()) == ["rpm", "scripts", "src", "tests"]


def test_a_package_requires_the_version_of_python_that_it_is_built_for(clone):
    python = clone / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = run(clone / "rpm/build", env={**os.environ, "PYTHON": str(python)})
    assert done.returncode == 1
    assert f"such as /usr/bin/python3.13, found {python}" in done.stderr


#: Mounts a directory of the machine, as the real program mounts /dev/shm, and is killed in its first run.
MMDEBSTRAP = """#!/bin/sh
set -e
for root; do :; done
mkdir -p "$root/dev/shm"
mount --bind machine "$root/dev/shm"
echo "$root" >>made
[ "$(wc -l <made)" != 1 ] || kill -KILL $$
"""


@pytest.fixture
def test_on(clone):
    """Runs ``test-on`` with substitutes for its programs; returns the root directories made so far."""
    programs = {"mmdebstrap": MMDEBSTRAP, "systemd-nspawn": "#!/bin/sh\n"}
    for name, text in programs.items():
        (clone / "bin" / name).parent.mkdir(exist_ok=True)
        (clone / "bin" / name).write_text(text)
        (clone / "bin" / name).chmod(0o755)
    run("git", "init", "--quiet", clone)
    environment = {**os.environ, "PATH": f"{clone}/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    def runs(*names):
        # Mounts that outlive a run are not left on this machine.
        commands = "; ".join(f"scripts/test-on --packages {name}" for name in names)
        run("unshare", "--mount", "--propagation", "private", "sh", "-c", commands, cwd=clone, env=environment)
        return [Path(line).name for line in (clone / "made").read_text().splitlines()]

    return runs


def test_a_root_directory_whose_making_was_killed_takes_no_files_of_the_machine_with_it(clone, test_on):
    (clone / "machine").mkdir()
    (clone / "machine" / "precious").touch()
    assert test_on("debian-13", "debian-13") == ["debian-13.new"] * 2
    assert [file.name for file in (clone / "machine").iterdir()] == ["precious"]


def test_only_the_root_directory_of_sid_is_made_again_every_day(clone, test_on):
    (clone / "machine").mkdir()
    names = ["debian-13", "sid"]
    assert test_on(*names, *names) == ["debian-13.new", "sid.new", "debian-13.new"]
    for name in names:
        os.utime(clone / "build/roots" / name / "made-of", (1, 1))
    assert test_on(*names)[3:] == ["sid.new"]


def test_a_command_on_another_distribution_finds_nothing_that_an_earlier_one_installed(clone, test_on):
    (clone / "machine").mkdir()
    (clone / ".gitignore").write_text(".venv\n/build\n")
    test_on("debian-13", "debian-13 -- scripts/demo")
    checkout = clone / "build/roots/debian-13/srv/fresh"
    for left in (".venv", "build"):
        (checkout / left).mkdir()
    test_on("debian-13 -- scripts/demo")
    assert (checkout / "scripts/demo").is_file()
    assert [(checkout / left).exists() for left in (".venv", "build")] == [False, True]


@pytest.mark.parametrize(
    ("command", "status"),
    [("true", 0), ("exit 5", 5), ("kill -TERM $PPID", 143), ("kill -INT $PPID", 130), ("kill -HUP $PPID", 129)],
)
def test_a_service_is_unmasked_after_each_end_of_its_installation(clone, command, status):
    systemctl = clone / "bin/systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text('#!/bin/sh\necho "$*" >>calls\n')
    systemctl.chmod(0o755)
    text = f"source scripts/lib.sh && without_service ssh bash -c '{command}'"
    done = run("bash", "-c", text, env={"PATH": f"{clone}/bin:/usr/bin:/bin"}, cwd=clone)
    assert done.returncode == status
    calls = [f"{verb} ssh.service ssh.socket" for verb in ("mask", "unmask", "disable")]
    assert (clone / "calls").read_text().splitlines() == calls


@pytest.mark.parametrize(("status", "has"), [(0, True), (127, False)])
def test_load_balancers_that_cannot_load_their_libraries_are_fetched_again(clone, status, has):
    programs = clone / "build/balancers/usr/sbin"
    programs.mkdir(parents=True)
    for name, end in {"haproxy": status, "nginx": 0}.items():
        (programs / name).write_text(f"#!/bin/sh\nexit {end}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin"}
    done = run("bash", "-c", "source scripts/lib.sh && has_balancers", env=environment, cwd=clone)
    assert (done.returncode == 0) == has


@pytest.mark.parametrize(
    ("change", "installs"),
    [
        ("touch setup.cfg scripts/lib.sh", False),
        ("echo 'markers = slow' >>setup.cfg", False),
        ("sed -i 's/ruff >= 0.9/ruff >= 0.10/' setup.cfg", True),
        ("echo '# installs more' >>scripts/lib.sh", True),
        ("echo /elsewhere >.venv/ready", True),
    ],
)
def test_only_a_change_of_what_is_wanted_makes_the_next_run_install_something(clone, change, installs):
    shutil.copy(PROJECT / "setup.cfg", clone)
    (clone / ".venv").mkdir()
    text = f'source scripts/lib.sh && wanted >.venv/ready && {change} && is_current .venv/ready ""'
    assert run("bash", "-c", text, cwd=clone).returncode == installs


def test_a_demo_runs_in_the_directory_of_the_caller_whose_files_it_does_not_import(clone):
    shutil.copy(PROJECT / "setup.cfg", clone)
    python, elsewhere = clone / ".venv/bin/python", clone / "elsewhere"
    for directory in (python.parent, elsewhere):
        directory.mkdir(parents=True)
    python.write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$PWD: $*"\n')
    python.chmod(0o755)
    run("bash", "-c", "source scripts/lib.sh && wanted >.venv/ready-sandbox-for-fleets", cwd=clone)
    done = run(clone / "scripts/demo", "--fleets", "-d", "fleet", cwd=elsewhere)
    assert done.stdout == f"{elsewhere}: -P -m zkdeployment.sandbox.fleets -d fleet\n"


def test_an_option_that_stops_after_the_first_stage_takes_no_tests(clone):
    done = run(clone / "scripts" / "test", "--quick", "tests/unit")
    assert done.returncode == 1
    assert "--quick takes no other options" in done.stderr
    assert not (clone / ".venv").exists()


def test_a_sandbox_reports_that_the_worker_of_pools_lacks_its_libraries_before_it_starts_anything(tmp_path):
    checkout = make_checkout(tmp_path / "checkout")
    programs = checkout / ".venv" / "bin"
    run(programs / "python", "-m", "pip", "install", ".[server]", cwd=checkout, env=environment())
    done = run(programs / "zkdeployment", "sandbox", "up", "--server", "-d", tmp_path / "fleet", env=environment())
    assert done.returncode == 2
    assert done.stderr == (
        "zkdeployment: the worker of host pools needs the library ansible_runner, which is not installed; run"
        f" pip install -e '.[pools]' in {checkout}\n"
    )
    assert not (tmp_path / "fleet").exists()

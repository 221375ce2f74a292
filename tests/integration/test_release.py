"""``scripts/release``: changelog, version, tag, archives and signatures, in a copy of this repository."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

#: These tests use the archives that are built fast; the RPMs have tests of their own.
QUICK = "--quick"

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), pytest.mark.all_features]


class Checkout:
    """A repository with the files of this one, a key for signatures, and one commit."""

    def __init__(self, directory) -> None:
        self.directory = directory
        self._home = directory.parent / "home"
        self._home.mkdir()
        known = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in known.split("\0"):
            if name and (PROJECT / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, directory / name)
        self.key = key = self._home / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self.signers = self._home / "signers"
        self.signers.write_text(f"maintainer@example.com {key.with_suffix('.pub').read_text()}")
        self.git("init", "--quiet", "--initial-branch=main")
        for name, value in {
            "user.name": "Maintainer",
            "user.email": "maintainer@example.com",
            "user.signingkey": str(key),
            "gpg.format": "ssh",
            "gpg.ssh.allowedSignersFile": str(self.signers),
        }.items():
            self.git("config", name, value)
        (directory / ".changes").mkdir(exist_ok=True)  # git keeps no directory without fragments
        (directory / ".changes/something-new.added.rst").write_text("Something is new.\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "The work of a month")

    def git(self, *words):
        return self._run("git", *words, check=True).stdout.strip()

    def release(self, *words, **environment):
        return self._run("scripts/release", QUICK, *words, **environment)

    def build_elsewhere(self, *words):
        """Build as another person does, who has other settings."""
        settings = git_settings({"tar.umask": "0077", "core.autocrlf": "true"})
        umask = ["sh", "-c", 'umask 077 && exec "$0" "$@"']
        return self._run(*umask, "scripts/release", QUICK, "--build", *words, TZ="Asia/Tokyo", **settings)

    def release_with_agent(self, *words):
        """Release while an agent has the key, and the setting of git is its public key."""
        agent = [
            "ssh-agent",
            "sh",
            "-c",
            'ssh-add -q "$0" && exec "$@"',
            self.key,
            "scripts/release",
            QUICK,
            *words,
        ]
        signing_key = f"key::{self.key.with_suffix('.pub').read_text().strip()}"
        return self._run(*agent, **git_settings({"user.signingkey": signing_key}))

    def release_from(self, directory, *words):
        """Call the script from another directory."""
        return self._run("env", "-C", directory, self.directory / "scripts/release", QUICK, *words)

    def _run(self, *words, check=False, **environment):
        python = os.path.realpath(sys.executable)
        own = {"PYTHON": python, "PIP": f"{sys.executable} -m pip --python {python}"}
        env = {**os.environ, "HOME": str(self._home), "GIT_CONFIG_NOSYSTEM": "1", **own, **environment}
        return subprocess.run(
            [*map(str, words)], cwd=self.directory, env=env, capture_output=True, text=True, check=check
        )


def git_settings(settings):
    """Return the variables for settings that count more than those of the repository."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    directory = tmp_path_factory.mktemp("release") / "checkout"
    directory.mkdir()
    return Checkout(directory)


def digests(directory):
    return (directory / "SHA256SUMS").read_text()


def test_a_dry_run_builds_the_archives_and_changes_nothing(checkout):
    before = checkout.git("rev-parse", "HEAD")
    (checkout.directory / ".venv").symlink_to(sys.prefix)  # people share one between worktrees
    # The releases of this maintainer are signed by default, and the key is not here.
    signed = {"commit.gpgSign": "true", "tag.gpgSign": "true", "gpg.ssh.program": "false"}
    done = checkout.release("7.0.0", "--dry-run", **git_settings(signed))
    assert done.returncode == 0, done.stderr
    archives = checkout.directory / "build/release/7.0.0"
    with zipfile.ZipFile(archives / "zkdeployment-7.0.0-py3-none-any.whl") as wheel:
        assert "zkdeployment-7.0.0.dist-info/METADATA" in wheel.namelist()
    with tarfile.open(archives / "zkdeployment-7.0.0.tar.gz") as source:
        changes = source.extractfile("zkdeployment-7.0.0/CHANGES.rst").read().decode()
        assert "zkdeployment-7.0.0/.changes/something-new.added.rst" not in source.getnames()
    assert changes.index("7.0.0 (") < changes.index("- Something is new.")
    assert "setuptools" in (archives / "tools.txt").read_text()
    assert not (archives / "SHA256SUMS.sig").exists()
    assert checkout.git("status", "--porcelain") == checkout.git("tag") == ""
    assert checkout.git("rev-parse", "HEAD") == before


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("7.5.0", Checkout.release_with_agent),
        ("8.0.0", Checkout.release),
    ],
)
def test_a_release_is_signed_and_can_be_built_again(checkout, tmp_path, version, release):
    done = release(checkout, version)
    assert done.returncode == 0, done.stderr
    assert f"git push --atomic origin main {version}" in done.stderr
    assert checkout.git("log", "-1", "--format=%s") == f"Release {version}"
    assert f"version = {version}" in (checkout.directory / "setup.cfg").read_text()
    checkout.git("verify-tag", version)
    archives = checkout.directory / "build/release" / version
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=archives, check=True)
    verify = ["ssh-keygen", "-Y", "verify", "-f", checkout.signers, "-I", "maintainer@example.com"]
    signature = ["-n", "zkdeployment", "-s", archives / "SHA256SUMS.sig"]
    subprocess.run([*verify, *signature], input=digests(archives).encode(), check=True, capture_output=True)

    assert checkout.build_elsewhere(version, tmp_path / "again").returncode == 0
    assert digests(tmp_path / "again") == digests(archives)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "expected VERSION and perhaps --dry-run"),
        (("9.0",), "expected a version such as 1.1.0, found '9.0'"),
        (("7.9.9",), "version 7.9.9 is not later than the release 8.0.0"),
        (("8.0.0",), "version 8.0.0 is not later than the release 8.0.0"),
        (("--build", "6.0.0", "x"), "there is no tag 6.0.0"),
        (("--build", "heads/main", "x"), "expected the tag of a release, such as 1.1.0, found 'heads/main'"),
    ],
)
def test_a_wrong_version_is_refused(checkout, words, message):
    if not checkout.git("tag"):
        checkout.git("tag", "8.0.0")
    done = checkout.release(*words)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_missing_python_is_named(checkout):
    done = checkout.release("9.0.0", PYTHON="/usr/bin/python3.99")
    assert done.returncode == 1
    assert done.stderr.startswith("expected Python at /usr/bin/python3.99, and found none; set PYTHON")


@pytest.mark.parametrize("place", ["directory", "directory/file"])
def test_existing_files_are_not_replaced_by_archives(checkout, tmp_path, place):
    kept = tmp_path / "directory/file"
    kept.parent.mkdir()
    kept.write_text("precious")
    done = checkout.release("--build", "HEAD", tmp_path / place)
    assert done.returncode == 1
    assert f"expected a new or empty directory, found {tmp_path / place}" in done.stderr
    assert kept.read_text() == "precious"


def test_the_directory_of_a_build_is_relative_to_that_of_the_caller(checkout, tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/file").touch()
    done = checkout.release_from(tmp_path, "--build", "HEAD", "directory")
    assert done.returncode == 1
    assert f"expected a new or empty directory, found {tmp_path}/directory" in done.stderr


def test_a_release_that_fails_leaves_no_files(checkout, tmp_path):
    done = checkout.release("--build", "HEAD", tmp_path / "archives", TMPDIR=tmp_path, PIP="false")
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_build_uses_the_environment_of_the_checkout_only_if_it_can_build_the_manual(
    checkout, tmp_path, is_complete
):
    python, pip, seen = tmp_path / "bin/python", tmp_path / "pip", tmp_path / "seen"
    python.parent.mkdir()
    for program, text in (
        (python, f"exit {0 if is_complete else 1}"),
        (pip, f"ls -d .venv > {seen}; exit 1"),
    ):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    shared = checkout.directory / ".venv"
    shared.unlink(missing_ok=True)
    shared.symlink_to(tmp_path)
    checkout.release("--build", "HEAD", tmp_path / "archives", PIP=pip)
    shared.unlink()
    assert seen.read_text() == (".venv\n" if is_complete else "")


def test_a_checkout_with_changes_is_not_released(checkout):
    (checkout.directory / "forgotten").write_text("")
    done = checkout.release("9.0.0")
    (checkout.directory / "forgotten").unlink()
    assert done.returncode == 1
    assert "changes that are not committed" in done.stderr

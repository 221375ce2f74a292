"""Real git and Subversion repositories for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PERSON = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    # After a commit, git would start two programs to look whether to collect garbage.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
}


class Repository:
    """A repository with a work tree in ``directory``, on branch ``main``; its path is its URL."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = str(directory)
        directory.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, date: int | None = None) -> str:
        """Run git in the repository; ``date`` is the committer date, in seconds since the epoch."""
        dates = {} if date is None else {"GIT_COMMITTER_DATE": f"{date} +0000", "GIT_AUTHOR_DATE": f"{date} +0000"}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.directory,
            env=os.environ | _PERSON | dates,
            check=True,
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )
        return done.stdout.strip()

    def write(self, files: dict[str, str | bytes | None]) -> None:
        """Write files; remove files whose content is ``None``."""
        for name, content in files.items():
            file = self.directory / name
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(
        self,
        files: dict[str, str | bytes | None],
        *options: str,
        message: str = "a change",
        config: tuple[str, ...] = (),
        date: int | None = None,
    ) -> str:
        """Commit files (``None`` removes a file) and return the revision."""
        self.write(files)
        self.git("add", "--all")
        flags = [flag for setting in config for flag in ("-c", setting)]
        self.git(*flags, "commit", "--quiet", "--allow-empty", "-m", message, *options, date=date)
        return self.git("rev-parse", "HEAD")

    def break_objects(self) -> None:
        """Make every object unreadable."""
        break_objects(self.directory / ".git")


def break_objects(git_directory: Path) -> None:
    """Overwrite every object and pack of a repository with invalid data."""
    objects = git_directory / "objects"
    for file in (path for path in objects.rglob("*") if path.is_file()):
        file.chmod(0o600)
        file.write_bytes(b"rubbish")


def make_key(directory: Path, name: str) -> Path:
    """Create an SSH key without a passphrase; return the private key's file. The public key is beside it."""
    key = directory / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True)
    return key


def public(key: Path) -> str:
    """Return the public key's type and text."""
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


class Subversion:
    """A repository at ``directory`` with a ``file://`` URL, and a working copy beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"file://{directory}"
        self.copy = directory.with_name(f"{directory.name}-copy")
        subprocess.run(["svnadmin", "create", str(directory)], check=True)
        self.svn("checkout", "--quiet", self.url, str(self.copy))

    def commit(
        self,
        files: dict[str, str | bytes | None],
        *,
        message: str = "a change",
        executable: tuple[str, ...] = (),
    ) -> int:
        """Commit files (``None`` removes a file), those in ``executable`` as executable; return the revision."""
        for name, content in files.items():
            file = self.copy / name
            if content is None:
                self.svn("delete", "--quiet", str(file))
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.svn("add", "--quiet", "--force", str(self.copy))
        for name in executable:
            self.svn("propset", "--quiet", "svn:executable", "yes", str(self.copy / name))
        self.svn("commit", "--quiet", "-m", message, str(self.copy))
        self.svn("update", "--quiet", str(self.copy))
        return int(self.svn("info", "--show-item", "revision", str(self.copy)))

    def svn(self, *arguments: str) -> str:
        """Run svn and return its output."""
        done = subprocess.run(
            ["svn", *arguments, "--non-interactive"],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"LANG": "C.UTF-8"},
        )
        return done.stdout.strip()

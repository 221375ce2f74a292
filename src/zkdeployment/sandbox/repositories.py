"""The repositories of a sandbox: the git repository of the tree, and a signed RPM repository with its build.

The build uses the operators' own tools: gpg, rpmbuild, rpmsign and createrepo_c. A host uses the RPM repository
with ``repositories = DIRECTORY/definitions``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine import process
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_AUTHOR = {
    "GIT_AUTHOR_NAME": "Sandbox",
    "GIT_AUTHOR_EMAIL": "sandbox@example.com",
    "GIT_COMMITTER_NAME": "Sandbox",
    "GIT_COMMITTER_EMAIL": "sandbox@example.com",
}


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch ``name`` of the repository ``bare``; pushes come from the repository ``mirror``."""

    bare: Path
    mirror: Path
    name: str = "main"

    @property
    def url(self) -> str:
        """The URL to clone."""
        return str(self.bare)

    def create(self) -> None:
        """Create the repositories that do not exist yet, without a commit."""
        for directory in (self.bare, self.mirror):
            if not directory.exists():
                self._git("init", "--quiet", "--bare", f"--initial-branch={self.name}", str(directory))

    def push(self, directory: Path, message: str) -> str:
        """Make the files of ``directory`` the branch's content and return its revision.

        A ``.git`` directory is ignored. Without changes there is no commit. Raises ``ProgramError`` with git's
        message if the push is rejected.
        """
        if not directory.is_dir():
            raise ConfigurationError(f"expected a directory of tree files, found no directory {directory}")
        # Other users may push to the repository, so its tip is fetched each time.
        self._at_mirror("fetch", "--quiet", "--prune", self.url, f"+refs/heads/*:{_TIPS}*")
        tip = self._at_mirror("for-each-ref", "--format=%(objectname)", f"{_TIPS}{self.name}")
        tree = self._content(directory)
        if tip and tree == self._at_mirror("rev-parse", f"{tip}^{{tree}}"):
            return tip
        parents = ["-p", tip] if tip else []
        revision = self._at_mirror("commit-tree", tree, *parents, "-m", message)
        self._at_mirror("push", "--quiet", self.url, f"{revision}:refs/heads/{self.name}")
        return revision

    def _content(self, directory: Path) -> str:
        index = self.mirror / "content.index"
        index.unlink(missing_ok=True)
        variables = {"GIT_WORK_TREE": str(directory.resolve()), "GIT_INDEX_FILE": str(index)}
        self._at_mirror(
            "-c", "core.bare=false", "add", "--all", "--force", ".", cwd=directory, environment=variables
        )
        return self._at_mirror("write-tree", environment=variables)

    def _at_mirror(
        self, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> str:
        variables = {"GIT_DIR": str(self.mirror)} | dict(environment or {})
        return self._git(*arguments, cwd=cwd, environment=variables)

    def _git(self, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        env = kept | isolated | _AUTHOR | dict(environment or {})
        return process.run(["git", *arguments], cwd=cwd, env=env, timeout=120).check().stdout.strip()


#: The prefix of the mirror's references to the tips of the repository.
_TIPS = "refs/tips/"


_REPO_FILE = """\
[{name}]
name={name}
baseurl={url}
enabled=1
gpgcheck=1
gpgkey={key}
metadata_expire=1
"""

#: Seconds for which replaced metadata stays, for readers that have begun to use it.
_GRACE = 600.0

#: The first bytes of each RPM file.
_MAGIC = b"\xed\xab\xee\xdb"

#: The timeout in seconds of gpg, rpmbuild, rpmsign and createrepo_c.
_TIMEOUT = 300.0


def build_packages(spec: Path, directory: Path, definitions: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Build the packages of a spec file in ``directory``, and return the RPM files.

    ``definitions`` are macros that the spec file uses. Raises ``ProgramError`` with the output of rpmbuild.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".build-") as scratch:
        macros = {
            **(definitions or {}),
            "_topdir": scratch,
            "_rpmdir": f"{scratch}/RPMS",
            "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        }
        defines = [word for name, text in macros.items() for word in ("--define", f"{name} {text}")]
        process.run(["rpmbuild", "-bb", *defines, str(spec)], timeout=_TIMEOUT).check()
        built = sorted(Path(scratch).glob("RPMS/*.rpm"))
        return tuple(file.replace(directory / file.name) for file in built)


class RpmRepository:
    """A repository of signed packages; ``directory`` contains the RPM files and their metadata.

    Several processes may write and read concurrently.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def definitions(self) -> Path:
        """The directory of the ``.repo`` file, for ``repositories`` in a host's configuration."""
        return self.directory / "definitions"

    @property
    def key(self) -> Path:
        """The file of the public key of the packages' signatures, as text."""
        return self.directory / "RPM-GPG-KEY"

    def create(self, name: str = "sandbox") -> None:
        """Create an empty repository with a key of its own; an existing repository is kept.

        Raises ``ProgramError`` if gpg or createrepo_c fails.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._exclusive():
            if not self.key.exists():
                self._make_key(name)
            self.definitions.mkdir(exist_ok=True)
            text = _REPO_FILE.format(
                name=name, url=self.directory.absolute().as_uri(), key=self.key.absolute().as_uri()
            )
            (self.definitions / f"{name}.repo").write_text(text, encoding="utf-8")
            self._refresh()

    def add(self, files: Sequence[Path]) -> tuple[Path, ...]:
        """Sign copies of RPM files, publish them all at once, and return their paths.

        Packages of the same name, version, release and architecture are replaced. Raises ``ConfigurationError``
        for a file that is not an RPM package, and ``ProgramError`` if signing fails; then nothing is published.
        """
        names = [_file_name(file) for file in files]
        with self._exclusive(), tempfile.TemporaryDirectory(dir=self.directory, prefix=".incoming-") as scratch:
            copies = [
                Path(shutil.copyfile(file, Path(scratch) / name)) for file, name in zip(files, names, strict=True)
            ]
            if copies:
                with self._signing_home() as env:
                    signing = ["rpmsign", "--addsign", "--define", f"__gpg {_gpg()}", "--define", "_gpg_name RPM"]
                    process.run([*signing, *map(str, copies)], env=env, timeout=_TIMEOUT).check()
            published = tuple(copy.replace(self.directory / copy.name) for copy in copies)
            self._refresh()
            return published

    def remove(self, pattern: str) -> None:
        """Remove the RPM files whose names match ``pattern`` (``hello-1.0-*``) from the repository."""
        with self._exclusive():
            for file in self.directory.glob(f"{pattern}.rpm"):
                file.unlink()
            self._refresh()

    def _make_key(self, name: str) -> None:
        with _gpg_home() as env:
            owner = ["--quick-gen-key", f"RPM {name} <rpm@{name}.invalid>", "rsa2048", "sign", "never"]
            process.run([_gpg(), "--batch", "--passphrase", "", *owner], env=env, timeout=_TIMEOUT).check()
            secret = process.run([_gpg(), "--batch", "--armor", "--export-secret-keys"], env=env).check().stdout
            public = process.run([_gpg(), "--batch", "--armor", "--export"], env=env).check().stdout
        self._secret_key.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
        self._secret_key.write_text(secret, encoding="ascii")
        self.key.write_text(public, encoding="ascii")

    @contextmanager
    def _signing_home(self) -> Iterator[Mapping[str, str]]:
        """Yield an environment in which gpg knows the repository's secret key."""
        with _gpg_home() as env:
            process.run([_gpg(), "--batch", "--import", str(self._secret_key)], env=env, timeout=_TIMEOUT).check()
            yield env

    def _refresh(self) -> None:
        """Replace the metadata.

        createrepo_c's own replacement leaves a moment without metadata. Therefore it writes to a separate
        directory. Its files, whose names contain their checksums, are moved first; the index that refers to them
        is replaced last.
        """
        metadata = self.directory / "repodata"
        metadata.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.directory, prefix=".metadata-") as scratch:
            command = [
                "createrepo_c",
                "-q",
                "--no-database",
                "--outputdir",
                scratch,
                "--excludes",
                ".*",
                str(self.directory),
            ]
            process.run(command, timeout=_TIMEOUT).check()
            files = sorted((Path(scratch) / "repodata").iterdir(), key=lambda file: file.name == "repomd.xml")
            names = {file.replace(metadata / file.name).name for file in files}
        outdated = time.time() - _GRACE
        for file in metadata.iterdir():
            if file.name not in names and file.stat().st_mtime < outdated:
                file.unlink()

    @property
    def _secret_key(self) -> Path:
        return self.directory / ".secret-key"

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the repository's lock, which ends with its process."""
        with (self.directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextmanager
def _gpg_home() -> Iterator[Mapping[str, str]]:
    """Yield an environment with an empty home for gpg, and end its gpg-agent afterwards.

    The path is short because it contains the agent's socket, whose path has a small limit.
    """
    with tempfile.TemporaryDirectory(prefix="zkd-", ignore_cleanup_errors=True) as home:
        env = {**os.environ, "GNUPGHOME": home}
        try:
            yield env
        finally:
            process.run(["gpgconf", "--kill", "all"], env=env, timeout=_TIMEOUT)


def _gpg() -> str:
    """Return the path of gpg, because rpm searches for it under a wrong name on some systems."""
    return shutil.which("gpg") or "gpg"


def _file_name(file: Path) -> str:
    """Return the canonical name of an RPM file; raises ``ConfigurationError`` for another file."""
    if not file.is_file():
        raise ConfigurationError(f"expected an RPM package, found no file {file}")
    with file.open("rb") as opened:
        if opened.read(len(_MAGIC)) != _MAGIC:  # because rpm reads a text as a list of packages
            raise ConfigurationError(f"{file} is not an RPM package")
    read = process.run(["rpm", "-qp", "--qf", "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm", str(file)])
    if read.status or "/" in read.stdout or not read.stdout:
        raise ConfigurationError(f"{file} is not an RPM package: {' '.join(read.stderr.split())[-300:]}")
    return read.stdout

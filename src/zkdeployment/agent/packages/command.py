"""Runs dnf 4 or dnf 5 for a root directory, with the arguments, the repositories and the environment of all calls.

``held_dnf`` keeps a process of dnf 4 waiting for the order to make a transaction that it has tested. The commands
of dnf belong to the callers, the explanations of its messages to ``failures``.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import platform
import random
import re
import shutil
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from zkdeployment.agent.packages import failures
from zkdeployment.agent.packages.failures import LockedError, OfflineError
from zkdeployment.agent.packages.replays import Dnf4Replays, Dnf5Replays, Replays
from zkdeployment.base.errors import PackageError, ProgramError
from zkdeployment.base.machine import files, process
from zkdeployment.base.machine.retrying import retry
from zkdeployment.base.machine.systemd import new_scope
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


#: The directories below the root that dnf 4 or dnf 5 reads by default.
_SYSTEM_DIRECTORIES = ("etc/yum.repos.d", "etc/yum/repos.d", "etc/distro.repos.d", "usr/share/dnf5/repos.d")

#: The most seconds between two attempts while dnf's lock is held: they double from the first to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0

#: The command line of dnf 4 for transactions, and one of its commands.
_PROGRAM = Path(__file__).parent / "dnf_program/zkdeployment_install.py"
INSTALL_COMMAND: Final = "zkdeployment-install"

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


@dataclass(frozen=True)
class Repositories:
    """The repositories that dnf may use: those of the root, and the ``configured`` ones.

    Each configured value is a directory of ``*.repo`` files (starts with ``/``), the URL of a repository (contains
    ``://``; signatures are checked with the keys that rpm has), or the id of a repository to enable.
    """

    root: Path
    configured: tuple[str, ...]

    def arguments(self) -> Sequence[str]:
        """Return the arguments for dnf; raises ``PackageError`` for an invalid value."""
        directories = [str(self.root / directory) for directory in _SYSTEM_DIRECTORIES]
        others: list[str] = []
        for number, value in enumerate(self.configured, 1):
            if value.startswith("/"):
                directories.append(_checked_directory(value))
            else:
                others += _further_arguments(number, value)
        return [f"--setopt=reposdir={','.join(directories)}", *others]


@dataclass(frozen=True)
class NamedRepositories:
    """The repositories of other hosts: only the ``configured`` ones, without those of this machine.

    The values are those of ``Repositories``. A path may also be a configuration file of dnf, whose settings and
    repositories are used; with directories, only their repositories are used.
    """

    configured: tuple[str, ...]

    def arguments(self) -> Sequence[str]:
        """Return the arguments for dnf; raises ``PackageError`` for an invalid value."""
        directories: list[str] = []
        others: list[str] = []
        configured = False
        for number, value in enumerate(self.configured, 1):
            if value.startswith("/") and Path(value).is_file():
                others.append(f"--config={value}")
                configured = True
            elif value.startswith("/"):
                directories.append(_checked_directory(value))
            else:
                others += _further_arguments(number, value)
        if directories or not configured:
            others.insert(0, f"--setopt=reposdir={','.join(directories) or '/dev/null'}")
        return others


def _further_arguments(number: int, value: str) -> Sequence[str]:
    """Return the arguments for a value that is not a path."""
    if "://" in value:
        name = f"zkdeployment-{number}"
        return [f"--repofrompath={name},{value}", f"--setopt={name}.gpgcheck=1"]
    if not _ID.fullmatch(value):
        raise PackageError(
            f"repositories: expected a directory, a URL or the id of a repository, found {value!r};"
            " correct the configuration"
        )
    return [f"--enablerepo={value}"]


def _checked_directory(path: str) -> str:
    directory = Path(path)
    if not directory.is_dir():
        raise PackageError(f"repositories: {path} is not a directory; create it, or correct the configuration")
    if not any(directory.glob("*.repo")):
        is_repository = (directory / "repodata").is_dir()
        advice = f"write file://{path} for the repository itself" if is_repository else "correct the configuration"
        raise PackageError(f"repositories: expected *.repo files in {path}, found none; {advice}")
    return path


P = ParamSpec("P")
T = TypeVar("T")

#: Make dnf change exactly the requested packages or none, independent of the host's configuration. The settings
#: of a single repository (such as ``gpgcheck=0``) take precedence.
_OPTIONS = (
    "gpgcheck=1",
    "localpkg_gpgcheck=1",
    "install_weak_deps=False",
    "clean_requirements_on_remove=False",
    "best=True",
    "strict=True",
    "skip_if_unavailable=False",
    "exit_on_lock=True",
    "keepcache=True",
)

#: Make dnf report its transaction as ``failures`` reads the report, independent of the host's configuration.
_REPORT = ("--setopt=debuglevel=2", "--setopt=errorlevel=3", "--setopt=rpmverbosity=info", "--setopt=color=never")

#: The directories below the root that dnf writes to, and the bytes that it needs at least.
_WRITTEN = ("var/cache", "var/lib", "usr/lib/sysimage")
_LEAST_SPACE = 1 << 20

#: The directory of dnf's variables below the root.
VARIABLES = "etc/dnf/vars"

#: The time limit in seconds for a call that changes nothing; dnf abandons a dead server much earlier.
_TIMEOUT = 3600.0

#: The directories in which the builds of dnf 5 keep their state, and their lock.
_STATE_DIRECTORIES_5 = ("usr/lib/sysimage/libdnf5", "var/lib/dnf", "var/lib/libdnf5")

_ATTEMPTS = 3

#: Seconds between two calls of ``tick`` while another program holds a lock.
_POLL = 0.2

#: The time that dnf has to end when the machine shuts down; systemd's default depends on the distribution. A
#: killed dnf leaves packages half changed.
_STOP = "TimeoutStopSec=90"


class DnfCommand:
    """Runs dnf for ``root``.

    For ``/``, the system's dnf uses its own configuration. For any other root, dnf ignores the configuration of
    this machine; the directory ``home`` then holds the files that dnf and rpm need. ``patience`` is the number of
    seconds for which ``retry_while_locked`` retries, ``gap`` the number between two attempts to reach a
    repository. ``tick`` is called a few times a second during calls that change nothing, and during waits; when
    ``tick`` raises, dnf is killed. A call that changes nothing may take ``limit`` seconds. ``paper`` is the
    directory of the programs that know the command ``zkdeployment-paper``, for a root that is not ``/``.
    """

    def __init__(  # noqa: PLR0913  one for each limit
        self,
        root: Path,
        repositories: Repositories | NamedRepositories,
        *,
        home: Path,
        patience: float,
        gap: float,
        tick: Callable[[], None],
        paper: Path | None = None,
        limit: float = _TIMEOUT,
    ) -> None:
        self._root = root
        self._repositories = repositories
        self._home = home
        self._patience = patience
        self._gap = gap
        self.tick = tick
        self._paper = paper
        self._limit = limit

    @cached_property
    def env(self) -> Mapping[str, str]:
        """The environment for dnf and rpm, with the language whose messages ``failures`` explains."""
        if self._is_system:
            return _environment()
        self._make_home()
        return {**_environment(), "HOME": str(self._home)}

    def run(self, *arguments: str, alone: bool = False) -> str:
        """Run a dnf command that changes no package and return its standard output.

        With ``alone``, dnf ignores the configured repositories and uses only those that ``arguments`` name. An
        unreachable repository is tried three times. Raises the ``PackageError`` of ``failures.explain``.
        """
        argv = self._argv("-q", *arguments, alone=alone)
        return self.retry_while_offline(lambda: self._run(argv))

    def _run(self, argv: Sequence[str]) -> str:
        try:
            done = process.run(argv, env=self.env, timeout=self._limit, tick=self.tick)
        except ProgramError as error:
            raise PackageError(f"{error}", retry_helps=True) from error
        if done.status:
            raise self.explain(done.status, f"{done.stderr}\n{done.stdout}")
        return done.stdout

    def run_apart(self, *arguments: str, output: Path, alone: bool = False) -> None:
        """Run a dnf command that changes packages; ``alone`` as for ``run``.

        dnf runs in its own session and scope and writes to the file ``output``, so that neither a signal to this
        process nor its death interrupts a transaction. Raises the ``PackageError`` of ``check``, and
        ``LockedError`` before dnf starts if another program holds the lock of dnf 5.
        """
        self.check_lock()
        try:
            argv = new_scope("packages", _STOP).wrap(self._transaction_argv(*arguments, alone=alone))
            status = process.run_apart(argv, output=output, env=self.env)
        except ProgramError as error:
            raise PackageError(f"{error}") from error
        self.check(status, read_output(output))

    def check(self, status: int, output: str) -> None:
        """Raise ``PackageError`` if a transaction of dnf failed, or one of its scriptlets did.

        ``output`` is all output of dnf, which exits with 0 after some failures of scriptlets.
        """
        if status:
            raise self.explain(status, output)
        if (failed := failures.scriptlet_failure(output)) is not None:
            raise PackageError(failed)

    def explain(self, status: int, output: str) -> PackageError:
        """Return the error that explains why dnf failed, as ``failures.explain``, with the version of dnf.

        If dnf printed nothing, the explanation may be a full disk, to which dnf could not write its output.
        """
        if not output.strip() and (full := self._full_directory()) is not None:
            return PackageError(f"{failures.DISK_FULL}: {full} has no space left; free some space")
        return failures.explain(status, output, f"dnf {self.version}")

    def _full_directory(self) -> Path | None:
        """Return the first directory of dnf's files that has no space left."""
        for directory in (
            self._home.parent,
            *(self._root / name for name in _WRITTEN),
            Path(tempfile.gettempdir()),
        ):
            with contextlib.suppress(OSError):
                if shutil.disk_usage(directory).free < _LEAST_SPACE:
                    return directory
        return None

    def converse(self, *arguments: str, output: Path) -> process.Conversation:
        """Start dnf 4 for a conversation, in its own session and scope, if ``can_converse``.

        dnf writes to the file ``output``. Raises ``PackageError`` if it cannot be started.
        """
        argv = self._transaction_argv(*arguments)
        try:
            return process.converse(new_scope("packages", _STOP).wrap(argv), output=output, env=self.env)
        except ProgramError as error:
            raise PackageError(f"{error}") from error

    def listen(self, conversation: process.Conversation) -> bytes | None:
        """Return the next line from a program that changes nothing; ``None`` if the program ended."""
        try:
            return conversation.read_line(timeout=self._limit, tick=self.tick)
        except TimeoutError as error:
            message = f"dnf did not prepare the transaction within {self._limit:g} s and was killed"
            raise PackageError(message, retry_helps=True) from error

    def ask(self, conversation: process.Conversation, *arguments: str) -> bool | None:
        """Run a command that changes no package in a dnf that waits; return whether the command succeeded.

        Return ``None`` if that dnf ended.
        """
        conversation.send(json.dumps(self._argv("-q", *arguments)[1:]).encode() + b"\n")
        answer = self.listen(conversation)
        return None if answer is None else bool(json.loads(answer))

    def check_lock(self) -> None:
        """Raise ``LockedError`` if another program holds the lock of dnf 5.

        dnf 5 has no ``exit_on_lock``: it waits for that program, such as one that asks its user, without a limit.
        """
        for directory in _STATE_DIRECTORIES_5:
            path = self._root / directory / "system-repo.lock"
            with contextlib.suppress(FileNotFoundError), path.open("r+b") as lock:
                try:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    message = f"another program uses dnf: it holds {path}; try again after it has finished"
                    raise LockedError(message, retry_helps=True) from error

    def retry_while_offline(self, attempt: Callable[[], T]) -> T:
        """Return the result of ``attempt``; an unreachable repository is tried three times."""
        return retry(attempt, attempts=_ATTEMPTS, gap=self._gap, kind=OfflineError)

    def retry_while_locked(self, attempt: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        """Return the result of ``attempt``, retried while another program holds dnf's or rpm's lock.

        Raises ``LockedError`` after ``patience`` seconds.
        """
        end, longest = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                return attempt(*args, **keywords)
            except LockedError:
                if time.monotonic() >= end:
                    raise
            self._sleep(random.uniform(0, longest))  # noqa: S311  agents are not to ask at the same time
            longest = min(2 * longest, _LONGEST_PAUSE)

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.tick()
            time.sleep(min(left, _POLL))

    @property
    def version(self) -> str:
        """The version of dnf; raises ``PackageError`` if dnf is not installed."""
        return self._program.version

    @property
    def replays(self) -> Replays:
        """Writes transaction files for the dnf that is installed now; raises ``PackageError`` without dnf."""
        return Dnf5Replays() if self._program.generation == 5 else Dnf4Replays()

    @property
    def reinstall(self) -> Sequence[str]:
        """The command that installs packages again, without those that are unavailable."""
        return ["reinstall", "--skip-unavailable"] if self._program.generation == 5 else ["reinstall"]

    def removals(self, command: Sequence[str]) -> frozenset[str] | None:
        """Return the full names of the packages that a command of dnf 5 would remove or replace.

        Return ``None`` with dnf 4, which reports its transaction in another way (see ``HeldDnf``).
        """
        if self._program.generation != 5:
            return None
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            self.run(*command, f"--store={scratch}/stored")
            stored = Path(scratch, "stored/transaction.json")
            rows = json.loads(stored.read_text(encoding="utf-8"))["rpms"] if stored.exists() else []
        return frozenset(row["nevra"] for row in rows if row["action"] in {"Remove", "Replaced"})

    @property
    def _program(self) -> DnfProgram:
        """The dnf to run. An upgrade of the host may replace it at any time."""
        return find_program() if self._paper is None else find_checking_program()

    @property
    def can_converse(self) -> bool:
        """Whether dnf is a Python program, so that ``converse`` is possible.

        An upgrade of zkdeployment during a deployment may have moved the program that does it.
        """
        return bool(self._interpreter) and _PROGRAM.exists()

    @property
    def _interpreter(self) -> Sequence[str]:
        """The command that runs dnf's Python, from dnf's first line; empty if dnf is another program."""
        with self._program.path.open("rb") as file:
            first = file.readline(1000)
        is_python = first.startswith(b"#!") and b"python" in first
        return first.removeprefix(b"#!").decode().split() if is_python else ()

    @property
    def _is_system(self) -> bool:
        return self._root == Path("/")

    def _transaction_argv(self, *arguments: str, alone: bool = False) -> list[str]:
        """Return the command for a transaction, of which dnf reports all that ``failures`` reads."""
        argv = self._argv(*_REPORT, *arguments, alone=alone)
        return [*self._interpreter, str(_PROGRAM), *argv[1:]] if self.can_converse else argv

    def _argv(self, *arguments: str, alone: bool = False) -> list[str]:
        program = self._program
        is_library = self._paper is not None and program.generation == 5
        return [
            *([_PYTHON, "-B", f"{self._paper}/libdnf5_paper.py"] if is_library else [str(program.path)]),
            "-y",
            *([] if self._is_system else self._isolating_options(program.generation)),
            *(f"--setopt={option}" for option in _OPTIONS),
            *(["--setopt=reposdir=/dev/null"] if alone else self._repositories.arguments()),
            *arguments,
        ]

    def _isolating_options(self, generation: int) -> Sequence[str]:
        """Return the options that keep dnf from reading this machine's configuration."""
        if generation == 5:
            plugins = ["--use-host-config", "--no-plugins"]
        elif self._paper is None:
            plugins = ["--noplugins"]
        else:
            path = f"--setopt=pluginpath={self._paper}/plugin"
            plugins = ["--setopt=plugins=True", path, "--setopt=pluginconfpath=/dev/null"]
        return (
            f"--installroot={self._root}",
            f"--config={self._home / 'dnf.conf'}",
            f"--releasever={_release()}",
            *plugins,
            f"--setopt=varsdir={self._root / VARIABLES}",
        )

    def _make_home(self) -> None:
        """Write dnf's configuration, and rpm's macros where rpm would keep its database in the home directory.

        Debian's rpm keeps its database under ``$HOME``, which depends on the user. The macros move the database
        to the usual directory below the root. The rpm of other systems needs no macros.
        """
        self._home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._home.mkdir(mode=0o700, exist_ok=True)
        files.replace(self._home / "dnf.conf", b"[main]\n")
        macros = self._home / ".rpmmacros"
        if not macros.exists():
            try:
                database = process.run(
                    ["rpm", "-E", "%{_dbpath}"], env={**os.environ, "HOME": str(self._home)}
                ).check()
            except ProgramError as error:
                raise PackageError(f"{error}; install rpm, or set packages = none in the configuration") from error
            in_home = database.stdout.startswith(f"{self._home}/")
            files.replace(macros, b"%_dbpath /var/lib/rpm\n" if in_home else b"")


@dataclass(frozen=True)
class DnfProgram:
    """An installed dnf; ``generation`` is its major version."""

    path: Path
    version: str
    generation: int


#: The names of dnf: on some distributions one generation has another name than ``dnf``, beside the other one.
_NAMES = ("dnf", "dnf5", "dnf-3")

_GENERATIONS = {"4.": 4, "dnf5 version 5.": 5}

#: The Python for which distributions have the library of dnf 5.
_PYTHON = "/usr/bin/python3"


def find_program(generations: Collection[int] = (4, 5)) -> DnfProgram:
    """Return the first installed dnf of these generations; raise ``PackageError`` if none is installed.

    A dnf that cannot print its version, as during its own upgrade, may be able to at the next attempt.
    """
    expected = " or ".join(f"dnf {generation}" for generation in sorted(generations))
    others, has_failed = [], False
    for name in _NAMES:
        found = shutil.which(name)
        if found is None:
            continue
        path = Path(found)
        try:
            said = _version(found, path.stat().st_mtime_ns)
        except PackageError as error:
            others.append(f"a dnf that fails ({error})")
            has_failed = True
            continue
        generation = next((value for start, value in _GENERATIONS.items() if said.startswith(start)), 0)
        version = said.removeprefix("dnf5 version ")
        if generation in generations:
            return DnfProgram(path, version, generation)
        others.append(f"{f'dnf {version}' if version else 'a dnf of unknown version'} as {path}")
    if others:
        message = f"expected {expected}, found {', '.join(others)}; install {expected}"
        raise PackageError(message, retry_helps=has_failed)
    raise PackageError(
        f"cannot find dnf: expected it on the PATH; install {expected}, or set packages = none in the"
        " configuration"
    )


def find_checking_program() -> DnfProgram:
    """Return the dnf that resolves transactions of other hosts; raise ``PackageError`` if none can.

    dnf 4 needs nothing else and is preferred. dnf 5 needs its library for Python.
    """
    try:
        return find_program((4,))
    except PackageError:
        found = find_program()
    try:
        process.run([_PYTHON, "-c", "import libdnf5"], env=_environment(), timeout=_TIMEOUT).check()
    except ProgramError as error:
        raise PackageError(
            f"dnf {found.version} needs its library for Python, which {_PYTHON} lacks; install python3-libdnf5"
        ) from error
    return found


def tools() -> tuple[str, list[str]]:
    """Return which programs change the packages of this host, and what is missing on it."""
    found, missing = [], []
    try:
        dnf = find_program()
        found.append(f"dnf {dnf.version} as {dnf.path}")
        if dnf.generation == 4 and shutil.which("createrepo_c") is None:
            missing.append(
                "cannot find createrepo_c: with dnf 4, only packages that a repository still has can be"
                " rolled back; install createrepo_c"
            )
    except PackageError as error:
        missing.append(str(error))
    rpm = shutil.which("rpm")
    if rpm is None:
        missing.append("cannot find rpm: expected it on the PATH; install rpm, or set packages = none")
        return ", ".join(found), missing
    try:
        version = _version(rpm, Path(rpm).stat().st_mtime_ns).removeprefix("RPM version ")
        found.append(f"rpm {version} as {rpm}")
    except PackageError as error:
        missing.append(f"cannot use rpm: {error}; install rpm again")
    return ", ".join(found), missing


@functools.cache
def _version(program: str, changed: int) -> str:  # noqa: ARG001  a changed file needs a new call
    """Return the first line that the program prints, such as ``4.14.0`` or ``dnf5 version 5.2.6``.

    Raises ``PackageError``, which is not cached, if the program fails.
    """
    try:
        done = process.run([program, "--version"], env=_environment(), timeout=_TIMEOUT).check()
    except ProgramError as error:
        raise PackageError(f"{error}") from error
    return next(iter(done.stdout.splitlines()), "").strip()


def _environment() -> dict[str, str]:
    """Return this process's environment without Python's variables: dnf and scriptlets use the system's Python."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**inherited, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def _release() -> str:
    """Return the machine's release, the value of ``$releasever`` for a root without a release package."""
    try:
        return platform.freedesktop_os_release().get("VERSION_ID", "1")
    except OSError:
        return "1"


def read_output(file: Path) -> str:
    """Return all output of a dnf that wrote to a file."""
    return file.read_text(encoding="utf-8", errors="replace")

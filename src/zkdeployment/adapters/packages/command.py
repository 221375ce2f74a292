"""Calling dnf 4 for a root: the arguments and the environment that every call has in common."""

from __future__ import annotations

import functools
import os
import platform
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable, process
from zkdeployment.adapters.packages import failures
from zkdeployment.adapters.packages.failures import OfflineError
from zkdeployment.adapters.retrying import persist
from zkdeployment.adapters.scripts.scopes import new_scope
from zkdeployment.errors import PackageError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.adapters.packages.repositories import Repositories

#: Exact and complete, or not at all; whatever the host's own configuration prefers. A repository's own settings
#: (``gpgcheck=0``) go before these.
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

#: Seconds for a call that changes nothing: dnf gives up on a dead server long before.
_TIMEOUT = 3600.0

_ATTEMPTS = 3


class DnfCommand:
    """dnf for ``root``.

    For ``/`` it is the system's dnf as it is configured. For any other root nothing of this machine's
    configuration counts; ``home`` holds what has to be in files then. ``gap`` is in how many seconds to try again;
    ``tick`` is called a few times a second while dnf changes nothing; when it raises something dnf is ended.
    """

    def __init__(
        self, root: Path, repositories: Repositories, *, home: Path, gap: float, tick: Callable[[], None]
    ) -> None:
        self._root = root
        self._repositories = repositories
        self._home = home
        self._gap = gap
        self._tick = tick

    @cached_property
    def env(self) -> Mapping[str, str]:
        """The environment for dnf and rpm, in a language that ``failures`` understands."""
        if self._is_system:
            return _environment()
        self._make_home()
        return {**_environment(), "HOME": str(self._home)}

    def run(self, *words: str, alone: bool = False) -> str:
        """Call dnf for something that changes no package and return its standard output.

        ``alone``: dnf uses none of the configured repositories, only those that ``words`` name.
        Where a repository is out of reach, try twice more. Raises ``PackageError`` as ``failures.explain`` has it.
        """
        argv = self._argv("-q", *words, alone=alone)
        return persist(lambda: self._run(argv), attempts=_ATTEMPTS, gap=self._gap, kind=OfflineError)

    def _run(self, argv: Sequence[str]) -> str:
        try:
            done = process.run(argv, env=self.env, timeout=_TIMEOUT, tick=self._tick)
        except ProgramError as error:
            raise PackageError(f"{error}", retry_helps=True) from error
        if done.status:
            raise failures.explain(done.status, f"{done.stderr}\n{done.stdout}")
        return done.stdout

    def run_apart(self, *words: str, output: Path, alone: bool = False) -> str:
        """Call dnf for a change, ``alone`` as for ``run``; return what it printed.

        It runs in a session and a scope of its own, its output going to a file, so that neither a signal to this
        process nor its death cuts a transaction short. Raises ``PackageError`` as ``failures.explain`` has it.
        """
        try:
            argv = new_scope("packages").wrap(self._argv(*words, alone=alone))
            status = process.run_apart(argv, output=output, env=self.env)
        except ProgramError as error:
            raise PackageError(f"{error}") from error
        printed = output.read_text(encoding="utf-8", errors="replace")
        if status:
            raise failures.explain(status, printed)
        return printed

    @property
    def version(self) -> str:
        """The version of dnf; raises ``PackageError`` unless it is one that this program can drive."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[str, str]:
        """The name of dnf 4 and its version; where dnf 5 has taken the name, dnf 4 may be there as ``dnf-3``."""
        others = []
        for name in ("dnf", "dnf-3"):
            program = shutil.which(name)
            if program is not None:
                version = _version(program, Path(program).stat().st_mtime_ns)
                if version.startswith("4."):
                    return name, version
                others.append(f"{version or 'a dnf that does not tell its version'} as {program}")
        if others:
            raise PackageError(f"expected dnf 4, found {', '.join(others)}; install dnf 4 (Fedora: python3-dnf)")
        raise PackageError("dnf is not on the PATH; hosts without it need packages = none in the configuration")

    @property
    def _is_system(self) -> bool:
        return self._root == Path("/")

    def _argv(self, *words: str, alone: bool = False) -> list[str]:
        return [
            self._found[0],
            "-y",
            *([] if self._is_system else self._apart_from_the_system()),
            *(f"--setopt={option}" for option in _OPTIONS),
            *(["--setopt=reposdir=/dev/null"] if alone else self._repositories.arguments()),
            *words,
        ]

    def _apart_from_the_system(self) -> Sequence[str]:
        return (
            f"--installroot={self._root}",
            f"--config={self._home / 'dnf.conf'}",
            f"--releasever={_release()}",
            "--noplugins",
            "--setopt=varsdir=/dev/null",
        )

    def _make_home(self) -> None:
        """Write dnf's configuration and, where rpm's database would be in the home directory, rpm's macros.

        Debian's rpm keeps its database under ``$HOME``, so that it would move with the user; in a root of our own
        it goes to the usual place. Other systems' rpm knows its own place under the root.
        """
        self._home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._home.mkdir(mode=0o700, exist_ok=True)
        durable.replace(self._home / "dnf.conf", b"[main]\n")
        macros = self._home / ".rpmmacros"
        if not macros.exists():
            try:
                place = process.run(
                    ["rpm", "-E", "%{_dbpath}"], env={**os.environ, "HOME": str(self._home)}
                ).check()
            except ProgramError as error:
                raise PackageError(
                    f"{error}; hosts without RPM need packages = none in the configuration"
                ) from error
            in_home = place.stdout.startswith(f"{self._home}/")
            durable.replace(macros, b"%_dbpath /var/lib/rpm\n" if in_home else b"")


@functools.cache
def _version(program: str, changed: int) -> str:  # noqa: ARG001  ask again when the file has changed
    """Return the first line of what dnf says of itself: ``4.14.0``, ``dnf5 version 5.2.6``."""
    try:
        said = process.run([program, "--version"], env=_environment(), timeout=_TIMEOUT).stdout
    except ProgramError as error:
        raise PackageError(f"{error}") from error
    return next(iter(said.splitlines()), "").strip()


def _environment() -> dict[str, str]:
    """Return ours but for what Python is told: dnf's is the system's, and so is that of packages' scriptlets."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**inherited, "LC_ALL": "C.UTF-8"}


def _release() -> str:
    """Return the machine's release: what ``$releasever`` means in a root that does not say."""
    try:
        return platform.freedesktop_os_release().get("VERSION_ID", "1")
    except OSError:
        return "1"

"""Hosts with packages: one in memory, one with a real RPM database in a scratch root.

Tests manipulate both in the same ways, so one suite covers both package managers.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from support.hosts.packages import CATALOGUE, Crash, FakePackageManager
from support.hosts.rpms import made_once
from support.waiting import wait_until
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.machine import process
from zkdeployment.base.plan import PackageChange
from zkdeployment.sandbox.repositories import RpmRepository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from zkdeployment.agent.adapters import PackageManager

#: An agent that does nothing but change packages: ROOT REPOSITORIES {package: version}.
_AGENT = """\
import json, pathlib, sys
from zkdeployment.agent.packages.dnf import Dnf
from zkdeployment.base.plan import PackageChange
want = json.loads(sys.argv[3])
manager = Dnf(pathlib.Path(sys.argv[1]), (sys.argv[2],))
manager.commit(manager.prepare(PackageChange(want=want, managed=frozenset(want))))
"""


def change(
    want: Mapping[str, str | None] | None = None,
    *remove: str,
    also: tuple[str, ...] = (),
    again: tuple[str, ...] = (),
    preserve: tuple[str, ...] = (),
) -> PackageChange:
    """Return a package change; ``again`` names packages to reinstall, ``also`` further managed packages."""
    wanted = want or {}
    managed = frozenset((*wanted, *remove, *also, *again))
    return PackageChange(
        want=wanted,
        remove=frozenset(remove),
        managed=managed,
        reinstall=frozenset(again),
        preserve=frozenset(preserve),
    )


class FakeHost:
    """A host in memory."""

    def __init__(self) -> None:
        self.manager: PackageManager = (fake := FakePackageManager(CATALOGUE))
        self._fake = fake

    @property
    def installed(self) -> set[str]:
        """The full names of the installed packages."""
        return {package.nevra for have in self._fake.installed().values() for package in have}

    def put(self, name: str, version: str, arch: str = "") -> None:
        """Install a package behind the package manager's back.

        With ``arch``, that for another architecture stays.
        """
        self._fake.put(
            next(
                package
                for package in self._fake.available
                if (package.name, package.version) == (name, version) and package.arch.startswith(arch)
            )
        )

    def drop(self, name: str) -> None:
        """Remove a package behind the package manager's back."""
        self._fake.drop(name)

    def lose_files(self, name: str) -> None:
        """Delete a package's files behind the package manager's back."""
        self._fake.lost.add(name)

    def withdraw(self, name: str, version: str) -> None:
        """Remove a package from the repository."""
        for package in [
            package for package in self._fake.available if (package.name, package.version) == (name, version)
        ]:
            del self._fake.available[package]

    def lose_repository(self) -> None:
        """Make the repository unreachable."""
        self._fake.unreachable = True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the package database's lock, as another program would."""
        self._fake.locked = True
        yield
        self._fake.locked = False

    def crash(self, want: Mapping[str, str | None]) -> None:
        """Kill an agent in the middle of this change."""
        self._fake.crash = True
        with pytest.raises(Crash):
            self.manager.commit(self.manager.prepare(change(want)))
        self._fake.crash = False


class RpmHost:
    """A host with a real RPM database under ``directory``, and a repository of its own.

    Unless it ``waits``, its package manager never holds a dnf: another dnf replays each transaction.
    """

    def __init__(self, directory: Path, repository: RpmRepository, *, waits: bool = True) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.repository = RpmRepository(directory / "repository")
        # Another worker of the tests may be refreshing the metadata.
        settled = shutil.ignore_patterns(".metadata-*")
        shutil.copytree(repository.directory, self.repository.directory, ignore=settled)
        self.repository.create()
        self.repositories = (str(self.repository.definitions),)
        self._waits = waits
        self.manager: PackageManager = self.new_manager()

    def new_manager(self) -> Dnf:
        """Return a new package manager with short timeouts for locks and servers."""
        manager = Dnf(self.root, self.repositories, patience=0.5, gap=0)
        if not self._waits:
            setattr(manager._held, "can_prepare", lambda _directory: False)  # noqa: B010  mypy forbids the assignment
        return manager

    @property
    def installed(self) -> set[str]:
        """The full names of the installed packages, as rpm lists them."""
        nevra = "%{NAME}-%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}.%{ARCH}\n"
        return {line for line in self.rpm("-qa", "--qf", nevra).splitlines() if not line.startswith("gpg-pubkey")}

    def rpm(self, *arguments: str) -> str:
        """Run rpm on this host's root and return the output."""
        argv = ["rpm", "--root", str(self.root), "--dbpath", "/var/lib/rpm", *arguments]
        return process.run(argv).check().stdout

    def put(self, name: str, version: str, arch: str = "") -> None:
        """Install a package behind the package manager's back.

        With ``arch``, that for another architecture stays.
        """
        (file, *_) = sorted(self.repository.directory.glob(f"{name}-{version}-*{arch}.rpm"))
        self.rpm("-i" if arch else "-U", "--oldpackage", "--nodeps", "--replacefiles", str(file))

    def drop(self, name: str) -> None:
        """Remove a package behind the package manager's back."""
        self.rpm("-e", "--nodeps", name)

    def lose_files(self, name: str) -> None:
        """Delete a package's files behind the package manager's back."""
        shutil.rmtree(self.root / "opt" / name)

    def withdraw(self, name: str, version: str) -> None:
        """Remove a package from the repository."""
        self.repository.remove(f"{name}-{version}-*")

    def lose_repository(self) -> None:
        """Make the repository unreachable."""
        self.repository.directory.rename(self.repository.directory.with_name("gone"))
        self.repository.definitions.mkdir(parents=True)
        shutil.copytree(
            self.repository.directory.with_name("gone") / "definitions",
            self.repository.definitions,
            dirs_exist_ok=True,
        )

    def find_repository(self) -> None:
        """Make the repository reachable again."""
        shutil.rmtree(self.repository.directory)
        self.repository.directory.with_name("gone").rename(self.repository.directory)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the package database's lock, as another program would."""
        with (self.root / "var/lib/rpm/.rpm.lock").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            yield

    def crash(self, want: Mapping[str, str | None]) -> None:
        """Kill an agent in the middle of this change."""
        self.start_agent(want)
        os.kill(self.agent, signal.SIGKILL)

    def start_agent(self, want: Mapping[str, str | None]) -> None:
        """Start an agent that makes this slow change; return when the scriptlet runs."""
        arguments = [str(self.root), *self.repositories, json.dumps(dict(want))]
        self.agent = process.start([sys.executable, "-c", _AGENT, *arguments], log=self.root.parent / "agent.log")
        wait_until((self.root / "scriptlet-runs").exists, "the slow package's scriptlet runs")


@pytest.fixture(scope="session")
def rpm_repository(tmp_path_factory: pytest.TempPathFactory) -> RpmRepository:
    """The catalogue, built for real and published in a repository; tests change copies of it."""
    repository = RpmRepository(made_once(tmp_path_factory, "catalogue", _publish_catalogue) / "repository")
    repository.create()  # its definition has the address of the directory in which it was made
    return repository


def _publish_catalogue(directory: Path) -> None:
    directory.mkdir()
    repository, other = RpmRepository(directory / "repository"), RpmRepository(directory / "other")
    repository.create()
    other.create("other")
    (directory / "built").mkdir()
    built: dict[str, list[Path]] = {"good": [], "none": [], "foreign": []}
    for offer in CATALOGUE:
        built[offer.signature].append(offer.build(directory / "built"))
    for file in (*built["none"], *other.add(built["foreign"])):
        shutil.copy(file, repository.directory)
    repository.add(built["good"])

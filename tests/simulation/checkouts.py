"""Checkouts on simulated machines: real git, real directories, and people who want to be root there.

Who may push to the software's repository names tags and branches like commit ids. The user of the service owns its
directory, and names a program in the configuration of the repository in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.repository import VERSIONS
from support.repository import Repository
from zkdeployment.agent.checkouts.places import CheckoutPlaces, remembered_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simulation.machine import Machine

#: The number and the package of the service whose software is checked out.
NUMBER = 0
PACKAGE = "app0"

_DATE = 1_800_000_000


class SoftwareRepository:
    """A repository with one commit for each version of the software; ``trap`` exists when a trap was sprung."""

    def __init__(self, directory: Path) -> None:
        self.trap = directory / "trap"
        self._directory = directory
        repository = Repository(directory / "software")
        self._url = repository.url
        commits = [repository.commit({"release": version, "notes": version}, date=_DATE) for version in VERSIONS]
        evil = repository.commit({"release": "evil"}, date=_DATE)
        for commit in commits:
            repository.git("update-ref", f"refs/tags/{commit}", evil)
            repository.git("update-ref", f"refs/heads/{commit}", evil)
        self._versions = {
            version: f"git:{self._url}#{commit}" for version, commit in zip(VERSIONS, commits, strict=True)
        }
        self._program = directory / "program"
        self._program.write_text(f"#!/bin/sh\ntouch {self.trap}\nexec cat\n")
        self._program.chmod(0o755)

    def root(self, machine: Machine) -> Path:
        """Return the directory that stands for ``/`` of a machine."""
        return self._directory / machine.name

    def spelled(self, number: int, version: str) -> str:
        """Return the version of a service as the tree has it."""
        return self._versions[version] if number == NUMBER else version

    def checked_out(self, machine: Machine) -> dict[str, str]:
        """Return the checkouts of a machine with their recorded versions."""
        version = remembered_version(self.root(machine) / "opt" / PACKAGE)
        return {} if version is None else {PACKAGE: version}

    def version_in(self, machine: Machine) -> str:
        """Return the version whose content is in a machine's checkout."""
        content = (self.root(machine) / "opt" / PACKAGE / "release").read_text()
        return self._versions.get(content, content)

    def set_trap(self, place: Path) -> None:
        """Act in a checkout as the user of the service may."""
        with (place / ".git/config").open("a") as config:
            config.write(f'[filter "trap"]\n\tsmudge = {self._program}\n\tclean = {self._program}\n')
        (place / ".git/info").mkdir(exist_ok=True)
        (place / ".git/info/attributes").write_text("* filter=trap\n")
        (place / "notes").write_text("of the service's user")  # git has to write the file again


class MachineCheckouts:
    """The ``CheckoutPlaces`` of a machine, which may be killed between two changes."""

    def __init__(self, machine: Machine, software: SoftwareRepository) -> None:
        self._machine = machine
        self._software = software
        self._places = CheckoutPlaces(software.root(machine), gap=0)

    def prepare(self, package: str, version: str, *, replaces: bool) -> None:
        """Check out a version beside its place."""
        self._machine.world.take_time(0.2, 2.0)
        self._act("fetch", lambda: self._places.prepare(package, version, replaces=replaces))

    def install(self, package: str, build: Callable[[str, str], None]) -> None:
        """Move a checkout to its place."""
        self._change(lambda: self._places.install(package, build))
        self._software.set_trap(self._software.root(self._machine) / "opt" / package)

    def remove(self, package: str) -> None:
        """Remove a checkout."""
        self._change(lambda: self._places.remove(package))

    def recover(self) -> None:
        """Roll back an interrupted change."""
        self._machine.process().check()
        self._places.recover()

    def _change(self, act: Callable[[], Any]) -> None:
        self._machine.before_change("checkouts")
        self._act("install", act)
        self._machine.after_change("checkouts")

    def _act(self, what: str, act: Callable[[], Any]) -> None:
        self._machine.point(what)
        act()
        if self._software.trap.exists():
            self._machine.world.checks.fail(
                f"{self._machine.name}: root runs a program of a service's user ({what})"
            )
        self._machine.point(f"{what} done")

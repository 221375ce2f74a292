"""Simulated signatures, which only the owner of a key can make, and the files of hosts that verify them."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from simulation.memory_files import MemoryPath
from zkdeployment.base.errors import UntrustedError
from zkdeployment.publishing.signing.statement import SignedStatement
from zkdeployment.publishing.watermark import published_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from simulation.machine import Machine
    from simulation.world import World
    from zkdeployment.base.machine.files import JsonFile
    from zkdeployment.base.publication import Published

#: The key of somebody else.
STRANGER = "stranger"

_PREFIX = "verified properties of "


def sign(key: str, text: str) -> str:
    """Return the signature of a text."""
    return hashlib.sha256(f"{key}\0{text}".encode()).hexdigest()


class RotatedKeys:
    """The keys of publishers, which are rotated: the one of the syncers, and those that hosts trust."""

    def __init__(self) -> None:
        self.used = "publisher 1"
        self.trusted = [self.used]

    def rotate(self, standing: bytes) -> str | None:
        """Take the next step of a rotation; return what was done, ``None`` if it is too early.

        Hosts trust a new key before a syncer uses it, and the old one until a syncer has signed what is published,
        which is ``standing``, with the new one.
        """
        if len(self.trusted) == 1:
            self.trusted.append(f"publisher {int(self.used.split()[1]) + 1}")
            return f"hosts trust {self.trusted[1]}, too"
        if self.used != self.trusted[1]:
            self.used = self.trusted[1]
            return f"syncers sign with {self.used}"
        statement = SignedStatement.from_data(standing) if standing else None
        if statement is None or statement.signature != sign(self.used, statement.text):
            return None
        return f"hosts do not trust {self.trusted.pop(0)} any more"


class SimulatedKey:
    """The key of a syncer (implements ``ports.publication.PublicationSigner``)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._key = world.keys.used

    def expect(self) -> None:
        """Prepare nothing: a simulated signature takes no time."""

    def abandon(self) -> None:
        """End no preparation."""

    def start(self, text: str) -> Callable[[], str]:
        """Begin to sign a text."""

        def finish() -> str:
            self._world.take_time(0.005, 0.05)
            return sign(self._key, text)

        return finish

    def made(self, statement: SignedStatement) -> bool:
        """Return whether a statement is signed with this key."""
        return statement.signature == sign(self._key, statement.text)


class InlineExecutor:
    """Runs each call at once in the green thread that submits it; the call may kill this thread."""

    def __init__(self, *_: object) -> None:
        """Do without threads."""

    def submit(self, action: Callable[..., object], *arguments: object) -> Future[object]:
        """Return the outcome of an action."""
        future: Future[object] = Future()
        try:
            future.set_result(action(*arguments))
        except Exception as error:  # noqa: BLE001  as an executor does
            future.set_exception(error)
        return future


class SimulatedPublishers:
    """The keys of publishers on a host (implements ``ports.PublisherKeys``)."""

    def __init__(self, world: World) -> None:
        self._world = world

    def verify(self, signed: SignedStatement) -> None:
        """Return if a publisher signed the statement."""
        self._world.take_time(0.005, 0.05)
        if all(signed.signature != sign(key, signed.text) for key in self._world.keys.trusted):
            raise UntrustedError("the publication is not signed by one of the publishers of this host")


class VerifiedOnMachine:
    """Stands in for ``VerifiedPropertiesFiles``, on a machine's disk in memory."""

    def __init__(self, directory: MemoryPath) -> None:
        self._disk = directory.disk

    def replace(self, properties: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the properties of these services."""
        for path, values in properties.items():
            self._disk.write(f"{_PREFIX}{path}", json.dumps(values).encode())

    def file(self, path: str) -> str:
        """Return the file of a service."""
        return f"{_PREFIX}{path}"


def verified_properties(machine: Machine, path: str) -> dict[str, Any]:
    """Return the properties of a service that a script on a machine reads."""
    value: dict[str, Any] = json.loads(machine.disk.files[f"{_PREFIX}{path}"])
    return value


def signed_fleet(world: World) -> dict[str, Any]:
    """Return what replaces names in zkdeployment while a fleet has publishers: by the names' places."""

    def memory(file: Path, *, required: bool) -> JsonFile[Published]:
        path = MemoryPath(world.machines[file.parts[2]].disk, "verified")
        return published_file(path, required=required)  # type: ignore[arg-type]

    return {
        "programs.syncer.publication_signer": lambda _settings: (
            SimulatedKey(world) if world.theme.signed else None
        ),
        "publishing.daemon.signing.ThreadPoolExecutor": InlineExecutor,
        "programs.syncer.PublisherKeysFile": lambda *_: SimulatedPublishers(world),
        "programs.host_trust.PublisherKeysFile": lambda *_: SimulatedPublishers(world),
        "programs.host_trust.published_file": memory,
        "programs.host_trust.VerifiedPropertiesFiles": VerifiedOnMachine,
    }

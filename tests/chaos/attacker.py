"""An attacker who owns ZooKeeper, and writes content that no syncer published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chaos.trees import SERVICES, path_of
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Create, Delete, Set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation

#: What the attacker wants to run. The repository of the hosts has the package.
EVIL: dict[str, Any] = {
    "path": "/evil/app",
    "n": 1,
    "package": "evil",
    "application": "evil",
    "subtype": None,
    "version": "1.0",
    "patches": [],
}

_SERVICES = tuple(map(path_of, range(SERVICES)))


class Attacker:
    """Each attack is one transaction, which also ends a stop and wakes all hosts."""

    def __init__(self, session: Session, hosts: tuple[str, ...]) -> None:
        self._session = session
        self._hosts = hosts
        self._remembered: dict[str, bytes] = {}

    def change_target(self, chance: Random) -> None:
        """Make a host run another service."""
        path = paths.target_path(chance.choice(self._hosts))
        assignments = json.loads(self._read([path]).get(path, b"[]"))
        self._write({path: json.dumps([*assignments, EVIL]).encode()})

    def change_property(self, chance: Random) -> None:
        """Change a property that a script reads."""
        services = self._read(_SERVICES)
        if services:
            path = chance.choice([*services])
            self._write({path: json.dumps({**json.loads(services[path]), "text": "evil"}).encode()})

    def publish(self, _: Random) -> None:
        """Publish a tree in which all hosts run another service, without a signature."""
        evil = json.dumps([EVIL]).encode()
        state = json.loads(self._read([paths.TARGETS])[paths.TARGETS])
        targets = {paths.target_path(host): evil for host in self._hosts}
        self._write({**targets, paths.TARGETS: json.dumps({**state, "version": "evil"}).encode()}, "evil")

    def replay(self, _: Random) -> None:
        """Put back the publication that was standing at the last attempt."""
        standing, old = self._read_publication(), self._remembered
        self._remembered = standing
        if old and old != standing:
            version = json.loads(old[paths.TARGETS]).get("version")
            self._write(old, version, gone=standing.keys() - old.keys())

    # Inside

    def _read(self, places: Iterable[str]) -> dict[str, bytes]:
        wanted = [*places]
        nodes = zip(wanted, self._session.get_many(wanted), strict=True)
        return {path: node.data for path, node in nodes if node is not None}

    def _read_publication(self) -> dict[str, bytes]:
        below = [
            f"{above}/{name}"
            for above in (paths.TARGETS, paths.SIGNED)
            for name in self._session.children(above) or ()
        ]
        return self._read([paths.TARGETS, paths.SIGNED, *below, *_SERVICES])

    def _write(self, data: Mapping[str, bytes], version: str | None = None, gone: Iterable[str] = ()) -> None:
        """Write data and a cluster version (default: the published one), and delete the missing nodes."""
        present = self._read([*data, paths.HOSTS, paths.TARGETS])
        if version is None:
            version = json.loads(present[paths.TARGETS])["version"]
        operations: list[Operation] = [
            Set(path, text) if path in present else Create(path, text)
            for path, text in data.items()
            if path in present or path.startswith(paths.OURS)
        ]
        operations += [Delete(path) for path in gone if path.startswith(paths.OURS)]
        operations += [Delete(f"{paths.STOPS}/{name}") for name in self._session.children(paths.STOPS) or ()]
        state = {**json.loads(present[paths.HOSTS]), "version": version}
        self._session.commit(*operations, Set(paths.HOSTS, json.dumps(state).encode()))

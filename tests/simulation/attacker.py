"""An attacker who owns ZooKeeper, and writes content that no syncer published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from simulation.server_tree import Write
from simulation.signatures import STRANGER, sign
from zkdeployment.publishing.signing.statement import SignedStatement, Statement
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulation.server_tree import ZNode
    from simulation.world import World

#: The attacks; each is a method.
ATTACKS = ("swap targets", "delete target", "property", "unsign", "sign", "swap buckets", "rewind", "version")

#: The depth of targets and buckets: the nodes above them exist.
_DEPTH = 3

#: Publications that are remembered, to be put back.
_REMEMBERED = 4


class Attacker:
    """Writes to ZooKeeper at random moments; ``strikes`` counts the attacks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.strikes = 0
        self._publications: list[dict[str, bytes]] = []

    def remember(self) -> None:
        """Keep the present publication."""
        kept = {path: node.data for path, node in self._nodes.items() if _is_published(path)}
        self._publications = [*self._publications[1 - _REMEMBERED :], kept]

    def strike(self) -> None:
        """Attack once."""
        kind = self._world.chance.choice(ATTACKS)
        writes = list(getattr(self, f"_{kind.replace(' ', '_')}")())
        if writes:
            self.strikes += 1
            self._world.trace(f"attack: {kind}: {', '.join(write.path for write in writes[:4])}")
            self._world.network.ensemble.write(writes, None)

    def forge_node(self, host: str) -> None:
        """Replace the node of a host whose agent ended by one that zc.zkdeployment would have left."""
        path, hosts = f"{paths.HOSTS}/{host}", self._nodes.get(paths.HOSTS)
        if hosts is None:
            return
        self.strikes += 1
        if path in self._nodes:
            self._world.network.ensemble.write([Write("delete", path)], None)
        version = json.loads(hosts.data or b"{}").get("version")
        data = json.dumps({"name": host, "version": version}).encode()
        self._world.network.ensemble.write([Write("create", path, data)], None)

    # One method for each kind

    def _swap_targets(self) -> Iterator[Write]:
        yield from self._swap(paths.TARGETS)

    def _swap_buckets(self) -> Iterator[Write]:
        yield from self._swap(paths.SIGNED)

    def _delete_target(self) -> Iterator[Write]:
        below = self._below(paths.TARGETS)
        if below:
            yield Write("delete", self._world.chance.choice(below))

    def _property(self) -> Iterator[Write]:
        services = [path for path in self._nodes if path.endswith("/app")]
        if services:
            path = self._world.chance.choice(services)
            properties = json.loads(self._nodes[path].data)
            properties["text"] = "an attacker's"
            yield Write("set", path, json.dumps(properties).encode())

    def _unsign(self) -> Iterator[Write]:
        if paths.SIGNED in self._nodes:
            yield Write("set", paths.SIGNED, b"")

    def _sign(self) -> Iterator[Write]:
        if paths.SIGNED in self._nodes and self._nodes[paths.SIGNED].data:
            text = SignedStatement.from_data(self._nodes[paths.SIGNED].data).text
            yield Write("set", paths.SIGNED, SignedStatement(text, sign(STRANGER, text)).to_data())

    def _rewind(self) -> Iterator[Write]:
        """Put an old publication back, all of it or a part."""
        if not self._publications:
            return
        share, old = self._world.chance.choice([0.5, 1.0, 1.0]), self._world.chance.choice(self._publications)
        for path in [path for path in self._nodes if _is_published(path)]:
            if self._world.chance.random() >= share:
                continue
            if path in old:
                yield Write("set", path, old[path])
            elif path.startswith((f"{paths.TARGETS}/", f"{paths.SIGNED}/")):
                yield Write("delete", path)
        yield from (
            Write("create", path, data)
            for path, data in sorted(old.items())
            if path not in self._nodes and self._world.chance.random() < share and path.count("/") == _DEPTH
        )
        if share == 1.0 and old.get(paths.SIGNED):
            statement = Statement.from_text(SignedStatement.from_data(old[paths.SIGNED]).text)
            yield from self._set_version(statement.revision)

    def _version(self) -> Iterator[Write]:
        yield from self._set_version(self._world.chance.choice([*self._world.repository.commits, "attack"]))

    def _set_version(self, version: object) -> Iterator[Write]:
        hosts = self._nodes.get(paths.HOSTS)
        if hosts is not None:
            properties = {**json.loads(hosts.data), "version": version}
            yield Write("set", paths.HOSTS, json.dumps(properties).encode())

    def _swap(self, above: str) -> Iterator[Write]:
        below = self._below(above)
        if len(below) > 1:
            one, other = self._world.chance.sample(below, 2)
            yield Write("set", one, self._nodes[other].data)
            yield Write("set", other, self._nodes[one].data)

    def _below(self, above: str) -> list[str]:
        return [f"{above}/{name}" for name in self._nodes[above].children] if above in self._nodes else []

    @property
    def _nodes(self) -> dict[str, ZNode]:
        return self._world.network.ensemble.leader.nodes


def _is_published(path: str) -> bool:
    """Whether a node belongs to a publication; the record of the last one stays, because syncers know it."""
    return path.startswith((f"{paths.TARGETS}/", paths.SIGNED, "/s"))

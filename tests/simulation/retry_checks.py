"""The invariants of retries: one host of a stopped fleet deploys one revision, until its next failure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulation.machine import ScriptCall
    from simulation.server_tree import Change
    from simulation.world import World


class _Order(NamedTuple):
    host: str
    revision: str


class RetryChecks:
    """Follows the retries that operators order, and how they end."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._order: _Order | None = None
        self._ended: dict[str, float] = {}

    def permits(self, call: ScriptCall) -> bool:
        """Whether a retry permits a script while the fleet is stopped."""
        return self._order == (call.machine.name, str(call.revision))

    def ended(self, host: str) -> float:
        """Return when the last retry of a host ended."""
        return self._ended.get(host, 0.0)

    def committed(self, changes: Sequence[Change]) -> None:
        """Check a transaction of any client that wrote ``/hosts`` or a stop."""
        nodes = self._world.network.ensemble.leader.nodes
        hosts = _properties(nodes[paths.HOSTS].data) if paths.HOSTS in nodes else {}
        retry, before = hosts.get("retry"), self._order
        self._order = None if retry is None else _Order(str(retry["host"]), str(retry["revision"]))
        if self._order != before:
            self._world.trace(f"the retry is {self._order}")
            if before is not None:
                self._ended[before.host] = self._world.now
        if self._order is not None:
            for problem in self._problems(self._order, before, changes, hosts.get("version")):
                self._fail(f"a retry of {self._order.host} {problem}")

    def _problems(
        self, order: _Order, before: _Order | None, changes: Sequence[Change], version: object
    ) -> Iterator[str]:
        nodes = self._world.network.ensemble.leader.nodes
        published = _properties(nodes[paths.TARGETS].data).get("version") if paths.TARGETS in nodes else None
        if version is not None:
            yield f"is in force while the fleet runs at {version}"
        if str(published) != order.revision:
            yield f"is for {order.revision}, but {published} is published"
        for change in changes:
            if not change.path.startswith(f"{paths.STOPS}/"):
                continue
            if change.kind == "delete" and not nodes[paths.STOPS].children:
                yield "has cleared the stops"
            stop = _properties(change.data) if change.kind != "delete" else {}
            if order == before and (stop.get("by") is not None or stop.get("host") == order.host):
                yield f"is still in force after {stop}"


def _properties(data: bytes) -> dict[str, Any]:
    value = json.loads(data) if data else {}
    return value if isinstance(value, dict) else {}

"""The invariants of retries: one host of a stopped fleet deploys one revision once, until its next failure.

A retry ends with each write of ``/hosts`` that does not renew it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulation.green import Process
    from simulation.machine import ScriptCall
    from simulation.server_tree import Change
    from simulation.world import World


#: Seconds that an agent may take to use a retry up after its host has the revision.
_MOMENT = 20.0


class _Order(NamedTuple):
    host: str
    revision: str


class RetryChecks:
    """Follows the retries that operators order. ``succeeded`` is the host that succeeded with the last one."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._order: _Order | None = None
        self._ended: dict[str, float] = {}
        self._reached: float | None = None  # when the retried host had the revision
        self.succeeded: str | None = None

    def permits(self, call: ScriptCall) -> bool:
        """Whether a retry permits a script while the fleet is stopped."""
        return self._order == (call.machine.name, str(call.revision))

    def ended(self, host: str) -> float:
        """Return when the last retry of a host ended."""
        return self._ended.get(host, 0.0)

    def script_started(self, call: ScriptCall) -> None:
        """Check a script that a retry permits: the host has not succeeded with this retry before."""
        if self._reached is not None:
            ago = self._world.now - self._reached
            self._fail(f"{call.machine.name} starts {call}, although its retry succeeded {ago:.0f} s ago")

    def agent_ended(self, process: Process) -> None:
        """Forget that a host has the revision if its agent had no time to use the retry up."""
        is_disturbed = self._world.network.disturbed_until(process) > self._world.now - _MOMENT
        is_new = self._reached is not None and self._world.now - self._reached < _MOMENT
        if self._order is not None and process.name == self._order.host and (is_disturbed or is_new):
            self._reached = None

    def committed(self, changes: Sequence[Change]) -> None:
        """Check a transaction of any client that wrote ``/hosts``, a host, a stop or the targets."""
        before, version = self._order, self._read_order()
        if self._order != before:
            self._world.trace(f"the retry is {self._order}")
            self._reached = None
            if before is not None:
                self._ended[before.host] = self._world.now
            if self._order is not None:
                self.succeeded = None
        if self._order is not None and self._has_revision(self._order):
            self._reached = self._world.now if self._reached is None else self._reached
            self.succeeded = self._order.host
        if self._order is not None:
            for problem in self._problems(self._order, before, changes, version):
                self._fail(f"a retry of {self._order.host} {problem}")

    def _read_order(self) -> object:
        """Read the retry that is in force, and return the cluster version."""
        node = self._world.network.ensemble.leader.nodes.get(paths.HOSTS)
        hosts = {} if node is None else _properties(node.data)
        retry = hosts.get("retry")
        is_open = node is not None and retry is not None and retry.get("stamp") == node.version
        is_new = is_open and not retry.get("succeeded")
        self._order = _Order(str(retry["host"]), str(retry["revision"])) if is_new else None
        return hosts.get("version")

    def _has_revision(self, order: _Order) -> bool:
        """Whether the node and the file of the host name the revision."""
        node = self._world.network.ensemble.leader.nodes.get(f"{paths.HOSTS}/{order.host}")
        recorded = self._world.machines[order.host].recorded_version
        return node is not None and {str(_properties(node.data).get("version")), str(recorded)} == {order.revision}

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

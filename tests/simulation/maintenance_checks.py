"""The invariant of maintenance: a host begins no script while it is in maintenance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from zkdeployment.base.act import Maintenance
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulation.machine import ScriptCall
    from simulation.server_tree import Change
    from simulation.world import World


class _Recorded(NamedTuple):
    maintenance: Maintenance
    since: float  # virtual seconds; one maintenance may replace another


class MaintenanceChecks:
    """Follows the maintenance of hosts that operators begin and end."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._recorded: dict[str, _Recorded] = {}

    def endless(self) -> list[str]:
        """Return the ids of the hosts in maintenance until an operator ends it."""
        return [host_id for host_id, (each, _) in self._recorded.items() if each.until is None]

    def committed(self, changes: Sequence[Change]) -> None:
        """Note the begin and the end of maintenance in a transaction."""
        for change in changes:
            if not change.path.startswith(f"{paths.MAINTENANCE}/"):
                continue
            host_id = unquote(change.path.rpartition("/")[2])
            former = self._in_force(host_id)
            self._recorded.pop(host_id, None)
            if change.kind != "delete":
                since = self._world.now if former is None else former.since
                maintenance = Maintenance.from_json(json.loads(change.data), host_id=host_id)
                self._recorded[host_id] = _Recorded(maintenance, since)
            self._world.trace(f"the maintenance of {host_id} {'ends' if change.kind == 'delete' else 'begins'}")

    def script_started(self, call: ScriptCall, is_late: Callable[[float], bool]) -> None:
        """Check that no maintenance was in force before; ``is_late`` knows how long a start may take."""
        recorded = self._in_force(call.machine.name)
        if recorded is not None and is_late(recorded.since):
            seconds = self._world.now - recorded.since
            self._fail(f"{call.machine.name} starts {call} {seconds:.0f} s after its maintenance began")

    def _in_force(self, host_id: str) -> _Recorded | None:
        recorded = self._recorded.get(host_id)
        now = self._world.network.modules.time.time()
        return None if recorded is None or not recorded.maintenance.is_in_force(now) else recorded

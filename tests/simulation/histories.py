"""Writes what happens in a simulation as a history, which ``histories.checker`` judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.machine import ScriptCall
    from simulation.world import World


class HistoryWriter:
    """Passes the events of a simulation to ``write`` as dictionaries; without it, nothing is written."""

    def __init__(self, world: World, write: Callable[[dict[str, Any]], None] | None) -> None:
        self._world = world
        self._write = write
        self._running: dict[ScriptCall, str] = {}
        self._begun = 0
        self._cluster: dict[str, Any] = {}

    def script_started(self, call: ScriptCall, lock: str | None, *, reachable: float, despite_stop: bool) -> None:
        """Write that a script begins, and that the cluster version still is the last one."""
        self._begun += 1
        self._running[call] = f"{call} ({self._begun})"
        if self._cluster:
            self._note("cluster", **self._cluster, since=self._world.now)
        facts = {"lock": lock, "reachable": reachable, "despite_stop": despite_stop}
        self._note("begin", script=self._running[call], host=call.machine.name, **facts)

    def script_ended(self, call: ScriptCall) -> None:
        """Write that a script ends."""
        self._note("end", script=self._running.pop(call, str(call)))

    def lock_released(self, lock: str) -> None:
        """Write that a host has released a lock."""
        self._note("release", lock=lock)

    def host_down(self, host: str, lock: str) -> None:
        """Write that a step that needs a lock reboots a host, which goes down."""
        self._note("down", host=host, lock=lock)

    def host_up(self, host: str) -> None:
        """Write that a host has booted, or was declared dead."""
        self._note("up", host=host)

    def reboot_recorded(self, host: str) -> None:
        """Write that a reboot of a host is recorded."""
        self._note("reboot", host=host)

    def reboot_over(self, host: str) -> None:
        """Write that the record of a host's reboot is removed."""
        self._note("back", host=host)

    def host_missing(self, host: str, *, stopped: bool) -> None:
        """Write that a host did not come back, and whether this failure took effect."""
        self._note("missing", host=host, stopped=stopped)

    def cluster_changed(self, version: object, stops: list[str] | None) -> None:
        """Write the cluster version and the stops on record if one of them has changed."""
        before = {name: self._cluster.get(name) for name in ("version", "stops")}
        if self._cluster and before == {"version": version, "stops": stops}:
            return
        is_same = self._cluster and before["version"] == version
        written = self._cluster["written"] if is_same else self._cluster.get("written", 0) + 1
        self._cluster = {"version": version, "stops": stops, "written": written}
        self._note("cluster", **self._cluster, since=self._world.now)

    def converged(self) -> None:
        """Write that the fleet has deployed everything after the last fault."""
        self._note("converged")

    def _note(self, kind: str, **facts: Any) -> None:
        if self._write is not None:
            self._write({"event": kind, "time": self._world.now, **facts})

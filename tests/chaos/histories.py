"""Writes observations of a chaos run as a history, which ``histories.checker`` judges."""

from __future__ import annotations

import json
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from chaos.checks import ignores_stops, lock_of
from chaos.observations import (
    AgentThawed,
    ClusterSeen,
    HostBooted,
    HostWentDown,
    RebootsSeen,
    ScriptBegan,
    ScriptEnded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from chaos.observations import Observation, ScriptCall
    from chaos.pushed import PushedTree


class HistoryWriter:
    """Appends the observations that a history has to ``file``. ``tree`` returns the valid tree of a revision."""

    def __init__(self, file: Path, tree: Callable[[str], PushedTree | None]) -> None:
        self._file = file
        self._tree = tree
        self._thawed: dict[str, float] = {}
        self._retry: tuple[str, str] | None = None
        self._reboots: Mapping[str, tuple[str, bool]] = {}

    @singledispatchmethod
    def see(self, observation: Observation) -> None:
        """Write an observation; those that a history does not have are left out."""

    @see.register
    def _(self, began: ScriptBegan) -> None:
        call, tree = began.call, self._tree(began.call.revision)
        self._note(
            "begin",
            began.time,
            script=_name(call),
            host=call.host,
            lock=None if tree is None else lock_of(call, tree),
            reachable=self._thawed.get(call.host, 0.0),
            despite_stop=ignores_stops(call, tree) or self._retry == (call.host, call.revision),
        )

    @see.register
    def _(self, ended: ScriptEnded) -> None:
        self._note("end", ended.time, script=_name(ended.call))

    @see.register
    def _(self, down: HostWentDown) -> None:
        tree = self._tree(down.revision)
        controller = None if tree is None else tree.hosts[down.host].controller
        self._note("down", down.time, host=down.host, lock=down.path if controller is None else controller.path)

    @see.register
    def _(self, booted: HostBooted) -> None:
        self._note("up", booted.time, host=booted.host)

    @see.register
    def _(self, seen: RebootsSeen) -> None:
        before, self._reboots = self._reboots, seen.boots
        for host in before.keys() - seen.boots.keys():
            self._note("back", seen.time, host=host)
        for host, (boot, failed) in seen.boots.items():
            former = before.get(host)
            if former is None or former[0] != boot:
                self._note("reboot", seen.time, host=host)
            if failed and former != (boot, failed):
                self._note("missing", seen.time, host=host, stopped=seen.stopped[host])

    @see.register
    def _(self, seen: ClusterSeen) -> None:
        self._retry = seen.retry
        is_valid = seen.stops is not None and seen.version is not None and self._tree(seen.version) is not None
        stops = seen.stops if is_valid else None
        self._note("cluster", seen.time, since=seen.since, version=seen.version, stops=stops, written=seen.written)

    @see.register
    def _(self, thawed: AgentThawed) -> None:
        self._thawed[thawed.host] = thawed.time

    def _note(self, kind: str, time: float, **facts: Any) -> None:
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"event": kind, "time": time, **facts}) + "\n")


def _name(call: ScriptCall) -> str:
    return (
        f"{call.action} {call.words} of {call.package} for {call.revision[:12]} ({call.host}, process {call.pid})"
    )

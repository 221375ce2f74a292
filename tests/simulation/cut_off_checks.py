"""The invariant of services whose script an agent ended in the middle: their host continues before others do.

An agent that ends keeps the lock for its host, or its successor does. Neither can if the host reaches no server
before the lock delay is over: the manual promises the lock only to a host that is back in time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zkdeployment.base.lock import LockedWork
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from simulation.machine import Machine, ScriptCall
    from simulation.server_tree import Change
    from simulation.world import World
    from zkdeployment.base.deployment import Deployment
    from zkdeployment.base.host import Identity


class CutOffChecks:
    """Follows the services of a fleet in the middle of whose scripts agents ended."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._cut_off: dict[str, Machine] = {}
        self._kept: dict[str, str] = {}  # the host for which each lock is kept
        self._absent_since: dict[str, float] = {}

    def script_started(self, call: ScriptCall, lock: str) -> None:
        """Check that no other host was cut off in the service whose lock a script has."""
        half = self._cut_off.get(lock, call.machine)
        if half is call.machine:
            return
        if self._kept.get(lock) != half.name and self._is_late(half.name):
            del self._cut_off[lock]
        else:
            self._fail(f"{call.machine.name} starts {call}, although {half.name} was cut off in {lock}")

    def script_ended(self, lock: str) -> None:
        """Note that a script has ended under a lock."""
        self._cut_off.pop(lock, None)

    def script_cut_off(self, call: ScriptCall, locks: Collection[str]) -> None:
        """Note that a script was ended in the middle: its machine continues before any other does."""
        if self._world.theme.long_scripts and call.machine.present:
            self._cut_off.update(dict.fromkeys(locks, call.machine))

    def machine_left(self, machine: Machine) -> None:
        """Forget where a machine was cut off that was switched off for good."""
        self._cut_off = {lock: other for lock, other in self._cut_off.items() if other is not machine}

    def handing_on(self, hand_on: Callable[..., bool]) -> Callable[..., bool]:
        """Return ``hand_on``, with which agents release their kept locks, as a function that notes the call."""

        def noted(fleet: Any, identity: Identity, pending: Collection[Deployment] = ()) -> bool:
            needed = {f"service {deployment.path}" for deployment in pending}
            for lock, machine in list(self._cut_off.items()):
                if machine.name == identity.id and lock not in needed:
                    del self._cut_off[lock]
            return hand_on(fleet, identity, pending)

        return noted

    def committed(self, changes: Sequence[Change]) -> None:
        """Note which hosts are registered, and for which hosts locks are kept."""
        for change in changes:
            directory, _, name = change.path.rpartition("/")
            if directory == paths.HOSTS:
                self._note_host(name, is_present=change.kind != "delete")
            elif directory == paths.BUSY and change.kind != "delete":
                work = LockedWork.from_json(json.loads(change.data))
                lock = f"service /{name.replace(',', '/')}"
                if work.kept:
                    self._kept[lock] = work.host_id
                elif lock not in self._cut_off or self._cut_off[lock].name == work.host_id:
                    self._kept.pop(lock, None)

    def _note_host(self, name: str, *, is_present: bool) -> None:
        if not is_present:
            self._absent_since.setdefault(name, self._world.now)
            return
        if self._is_late(name):
            self._cut_off = {
                lock: machine
                for lock, machine in self._cut_off.items()
                if machine.name != name or self._kept.get(lock) == name
            }
        self._absent_since.pop(name, None)

    def _is_late(self, name: str) -> bool:
        """Whether a host has been away for so long that others need not wait for it."""
        since = self._absent_since.get(name, self._world.now)
        return self._world.now - since >= self._world.options.lock_delay

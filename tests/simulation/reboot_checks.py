"""The invariants of reboots: one host of a lock at most is down by a reboot, and each recorded reboot ends.

A reboot ends when the host is back, or as a failure that stops the fleet or is reported to the rollout.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import unquote

from simulation.green import EPOCH
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.machine.reboots import MAX_REBOOTS, RebootRecord
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulation.machine import Machine, ScriptCall
    from simulation.repository import Commit
    from simulation.server_tree import Change
    from simulation.world import World

#: Seconds after the deadline and the last fault until the failure of a host that is not back has to be reported.
_PATIENCE = 1800.0


#: Seconds by which coordinators round times at most.
_ROUNDED = 0.1

#: Reboots for one step without a failure: an agent that dies after a script succeeded may begin the step again.
_MOST = 2 * MAX_REBOOTS


class RebootChecks:
    """Follows the hosts that reboot for steps, and their records. ``commit_of`` returns a revision's commit."""

    def __init__(
        self, world: World, fail: Callable[[str], None], commit_of: Callable[[object], Commit | None]
    ) -> None:
        self._world = world
        self._fail = fail
        self._commit_of = commit_of
        self._commanded: dict[str, str] = {}  # the locks of hosts that are about to go down, by host
        self._down: dict[str, str] = {}  # the locks of hosts that are down, by host
        # Reboots since the last failure of a host, by host, publication and path.
        self._begun: Counter[tuple[str, int, str]] = Counter()
        self._calm: float | None = None  # since when there are no faults

    def are_allowed(self, call: ScriptCall) -> bool:
        """Whether the service of a script lets the script ask for a reboot."""
        commit = self._commit_of(call.revision)
        if commit is None or call.is_bracket or call.undeploys:
            return False
        wanted = commit.wanted(call.machine.identity).assignments
        return any(entry.path == call.path and entry.reboot_allowed for entry in wanted)

    # Machines

    def commanded(self, machine: Machine) -> None:
        """Check that a reboot is recorded before its command, and that its lock is kept for the host."""
        record = self._records().get(machine.name)
        if record is None or record.boot_id != machine.system.boot_id():
            self._fail(f"{machine.name} reboots, but its record in ZooKeeper is {record}")
            return
        lock = self._lock_of(machine, record)
        self._world.trace(f"{machine.name} reboots under the lock {lock}")
        self._commanded[machine.name] = lock
        step = (machine.name, record.sequence, record.path)
        self._begun[step] += 1
        if self._begun[step] > _MOST:
            self._fail(f"{machine.name} reboots again and again for {record.step}")
        for other, held in self._down.items():
            if held == lock and other != machine.name:
                self._fail(f"{machine.name} reboots under {lock} while {other} is down")

    def went_down(self, machine: Machine) -> None:
        """Check that no other host of the lock is down."""
        lock = self._commanded.pop(machine.name, "")
        for other, held in self._down.items():
            if held == lock:
                self._fail(f"two hosts of {lock} are down: {other} and {machine.name}")
        self._down[machine.name] = lock
        self._world.history.host_down(machine.name, lock)

    def booted(self, machine: Machine) -> None:
        """Note that a host is up again."""
        self._commanded.pop(machine.name, None)
        if self._down.pop(machine.name, None) is not None:
            self._world.history.host_up(machine.name)

    def machine_left(self, machine: Machine) -> None:
        """Forget a host that was switched off for good: operators release its locks."""
        self.booted(machine)

    def check_free(self, machine: Machine, lock: str) -> None:
        """Check that no other host is down when a host begins work under a lock."""
        for other, held in self._down.items():
            if held == lock and other != machine.name:
                self._fail(f"{machine.name} works under {lock} while {other} is down")

    # ZooKeeper

    def committed(self, changes: Sequence[Change]) -> None:
        """Check that a reboot is reported as a failure after its deadline, with an effect."""
        for change in changes:
            if change.kind == "delete" and change.path.startswith(f"{paths.BUSY}/"):
                self._check_lock("/" + change.path.rpartition("/")[2].replace(",", "/"))
            if change.path.startswith((f"{paths.STOPS}/", f"{paths.HOSTS}/")):
                self._note_outcome(change)
            if not change.path.startswith(f"{paths.REBOOTS}/"):
                continue
            host_id = unquote(change.path.rpartition("/")[2])
            if change.kind == "delete":
                self._world.trace(f"the reboot of {host_id} is over")
                self._world.history.reboot_over(host_id)
                if host_id in self._down:
                    self._fail(f"the record of {host_id} is removed while it is down")
                continue
            record = RebootRecord.from_json(json.loads(change.data))
            self._world.trace(f"the reboot of {host_id} {'fails' if record.expired else 'begins'}: {record.step}")
            if record.expired:
                is_reported = self._check_expired(host_id, record, changes)
                self._world.history.host_missing(host_id, stopped=is_reported)
                self._forget_begun(host_id)
            else:
                self._world.history.reboot_recorded(host_id)

    def _check_lock(self, path: str) -> None:
        """Check that the lock of a service is not released while a host is down for it."""
        for host_id, lock in self._down.items():
            if lock == f"service {path}":
                self._fail(f"the lock of {path} is released while {host_id} is down")

    def _note_outcome(self, change: Change) -> None:
        """Forget the reboots of a host whose step has failed or whose deployment is complete."""
        host_id = change.path.rpartition("/")[2]
        properties = json.loads(change.data) if change.data else {}
        if change.path.startswith(f"{paths.STOPS}/"):
            self._forget_begun(str(properties.get("host")))
        elif properties.get("error") or properties.get("version"):
            self._forget_begun(host_id)

    def _forget_begun(self, host_id: str) -> None:
        for key in [key for key in self._begun if key[0] == host_id]:
            del self._begun[key]

    def _check_expired(self, host_id: str, record: RebootRecord, changes: Sequence[Change]) -> bool:
        """Check that the failure of a host is due and takes effect, and return whether it does."""
        if self._now + _ROUNDED < record.deadline:
            self._fail(f"{host_id} is reported {record.deadline - self._now:.0f} s before its deadline")
        nodes = self._world.network.ensemble.leader.nodes
        hosts, targets = json.loads(nodes[paths.HOSTS].data), json.loads(nodes[paths.TARGETS].data)
        is_running = hosts.get("version") == record.revision and targets.get("sequence") == record.sequence
        is_reported = record.rollout is not None and any(
            f"/{host_id}" in change.path and record.rollout in change.path for change in changes
        )
        has_effect = not is_running or is_reported or record.rollout is not None
        if not has_effect:
            self._fail(f"{host_id} did not come back for {record.step}, but the fleet runs at {record.revision}")
        return has_effect

    def overdue(self) -> Iterator[str]:
        """Yield the hosts whose deadline passed long ago without a report; call this after the faults."""
        self._calm = self._now if self._calm is None else self._calm
        for host_id, record in self._records().items():
            if not record.expired and self._now > max(record.deadline, self._calm) + _PATIENCE:
                yield f"{host_id}, which reboots for {record.step}, is not back, and nobody reported it"

    def reported(self, machine: Machine) -> bool:
        """Whether a host that is down is known to have failed, so that operators start it."""
        record = self._records().get(machine.name)
        return record is None or record.expired

    # Inside

    @property
    def _now(self) -> float:
        return EPOCH + self._world.now

    def _records(self) -> dict[str, RebootRecord]:
        nodes = self._world.network.ensemble.leader.nodes
        above = nodes.get(paths.REBOOTS)
        names = () if above is None else above.children
        return {
            unquote(name): RebootRecord.from_json(json.loads(nodes[f"{paths.REBOOTS}/{name}"].data))
            for name in names
        }

    def _lock_of(self, machine: Machine, record: RebootRecord) -> str:
        """Return the lock that is kept over a reboot."""
        role, commit = machine.identity.role, self._commit_of(record.revision)
        if commit is None:
            is_controlled = role is not None and machine.version_of(f"ctl-{role}") is not None
        else:
            is_controlled = commit.wanted(machine.identity).controller is not None
        if is_controlled:
            return f"role {role}"
        return f"service {Deployment(record.path, record.number).path}"

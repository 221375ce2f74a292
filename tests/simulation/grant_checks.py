"""The invariants of grants: a host that a strategy governs starts no script before its rollout lets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zkdeployment.strategies.permission import Phase
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simulation.machine import ScriptCall
    from simulation.server_tree import Change, ZNode
    from simulation.world import World

#: The nodes that decide which rollout governs the fleet.
_GOVERNING = frozenset({paths.HOSTS, paths.TARGETS, paths.ROLLOUTS})

#: Seconds after the beginning of a rollout in which a host may still report a failure as one before it.
_BEGINNING = 3.0


class GrantChecks:
    """Follows the publication, its rollout and the grants of the rollout.

    ``is_late`` returns whether a script starts too long after a moment for the agent not to have seen it.
    """

    def __init__(
        self, world: World, fail: Callable[[str], None], is_late: Callable[[ScriptCall, float], bool]
    ) -> None:
        self._world = world
        self._fail = fail
        self._is_late = is_late
        self._changed: dict[str, float] = {}
        self._version: object = None
        self._lacking: dict[str, int] = {}  # the publications that hosts completed without stopped groups
        self._judging: str | None = None  # the rollout of the publication that the fleet deploys
        self._judging_since = 0.0

    def committed(self, changes: Sequence[Change]) -> None:
        """Check a transaction of any client."""
        for change in changes:
            if change.path == paths.HOSTS and not self._is_new(_decoded(change.data)):
                continue  # such as the end of a group's stop, which permits no host to deploy
            if change.path in _GOVERNING or change.path.startswith(f"{paths.ROLLOUTS}/"):
                self._changed[change.path] = self._world.now
            if change.path.startswith(f"{paths.STOPS}/") and change.kind != "delete":
                self._check_stop(_decoded(change.data))
        if any(change.path in _GOVERNING for change in changes):
            judging = self._judging_rollout()
            if judging != self._judging:
                self._judging, self._judging_since = judging, self._world.now
        for change in changes:
            self._note_lacking(change)

    def _is_new(self, hosts: Mapping[str, Any]) -> bool:
        """Whether ``/hosts`` got another cluster version."""
        before, self._version = self._version, (hosts.get("version"), "importing" in hosts)
        return before != self._version

    def _note_lacking(self, change: Change) -> None:
        """Note a host that completed its part except steps of stopped groups: these need no other grant."""
        parent, _, host = change.path.rpartition("/")
        rollout = self._judging_rollout()
        if parent != paths.HOSTS or change.kind == "delete" or rollout is None:
            return
        node = _decoded(change.data)
        if not self._governs(node.get("version")) or node.get("sequence", 0) < self._sequence:
            return
        if not node.get("lacking"):
            self._lacking.pop(host, None)
        elif self._properties(paths.grant_path(rollout, host)).get("phase") == Phase.DEPLOY.value:
            self._lacking[host] = self._sequence

    def script_started(self, call: ScriptCall) -> None:
        """Check a script outside the brackets of controllers: the work under a role's lock is completed."""
        if not self._governs(call.revision):
            return
        rollout, grant = self._judging_rollout(), None
        deciding = [*_GOVERNING]
        if rollout is not None:
            deciding.append(paths.grant_path(rollout, call.machine.name))
            grant = self._properties(deciding[-1]).get("phase")
        if grant == Phase.DEPLOY.value or self._lacking.get(call.machine.name) == self._sequence:
            return
        since = max(self._changed.get(path, 0.0) for path in deciding)
        if self._is_late(call, since):
            self._fail(
                f"{call.machine.name} starts {call} without a grant: the rollout is {rollout}, its grant {grant},"
                f" for {self._world.now - since:.0f} s"
            )

    def _check_stop(self, stop: Mapping[str, Any]) -> None:
        """Check that no failure of one host stops a fleet whose rollout judges the host."""
        if self._judging is None or stop.get("by") is not None:
            return
        if self._lacking.get(str(stop.get("host"))) == self._sequence:
            return  # the rollout has judged the host
        if self._world.now - self._judging_since > _BEGINNING:
            self._fail(f"{stop.get('host')} stops the fleet, although rollout {self._judging} judges the host")

    def _judging_rollout(self) -> str | None:
        """Return the rollout of the publication that the fleet deploys; ``None`` if none is under way."""
        if not self._governs(self._properties(paths.HOSTS).get("version")):
            return None
        rollouts = self._properties(paths.ROLLOUTS)
        current = rollouts.get("current")
        is_valid = rollouts.get("over") is not True and str(current).startswith(f"{self._sequence}-")
        return str(current) if is_valid else None

    @property
    def _sequence(self) -> int:
        """The sequence of the publication that names the rollout; 0 before the first one."""
        targets = self._properties(paths.TARGETS)
        return targets.get("since") or targets.get("sequence") or 0

    def _governs(self, revision: object) -> bool:
        """Whether the fleet deploys a revision under a strategy."""
        hosts, targets = self._properties(paths.HOSTS), self._properties(paths.TARGETS)
        is_running = revision is not None and str(hosts.get("version")) == str(revision)
        is_ordered = targets.get("ordered") == hosts.get("version") and "importing" not in hosts
        return is_running and is_ordered and targets.get("strategy") is not None

    def _properties(self, path: str) -> dict[str, Any]:
        nodes: dict[str, ZNode] = self._world.network.ensemble.leader.nodes
        return _decoded(nodes[path].data) if path in nodes else {}


def _decoded(data: bytes) -> dict[str, Any]:
    value = json.loads(data) if data else {}
    return value if isinstance(value, dict) else {}

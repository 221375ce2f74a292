"""The invariants of operators' acts: no group begins without its approval, no host while its rollout is paused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulation.server_tree import Change
    from simulation.themes import Theme
    from zkdeployment.strategies.state import RolloutState

#: The group that operators may have to approve.
REST = "rest"


def awaits_approval(state: RolloutState) -> bool:
    """Whether a rollout has a group that operators have to approve, and did not approve."""
    return _is_manual(state) and REST not in state.promoted


def _is_manual(state: RolloutState) -> bool:
    return any(group.name == REST and group.pace.manual for group in state.rollout.strategy.groups)


class ApprovalChecks:
    """Follows the acts on rollouts, and checks grants, in fleets whose theme has ``approvals``.

    An approval belongs to one rollout: another publication, and another attempt, need another one.
    """

    def __init__(self, theme: Theme, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self._is_active = theme.approvals
        self._manual: set[str] = set()  # the rollouts with a group that needs an approval
        self._approved: set[str] = set()
        self._withheld: dict[str, frozenset[str]] = {}  # the granted hosts of paused rollouts

    def committed(self, changes: Sequence[Change]) -> None:
        """Check the acts and the grants in a transaction."""
        for change in changes if self._is_active else ():
            if change.kind == "delete" or not change.path.startswith(f"{paths.ROLLOUTS}/"):
                continue
            rollout, _, child = change.path.removeprefix(f"{paths.ROLLOUTS}/").partition("/")
            if not child:
                self._note(decode_state(change.data))
            elif child.startswith("acts/"):
                act = json.loads(change.data)
                if act["directive"] == Directive.PROMOTE.value and act["group"] == REST:
                    self._approved.add(rollout)
            elif child.startswith("grants/") and rollout in self._manual - self._approved:
                grant = json.loads(change.data)
                if grant["group"] == REST and grant["phase"] is not None:
                    self._fail(f"{rollout} grants {grant['phase']} of {REST}, which no operator approved")

    def _note(self, state: RolloutState) -> None:
        if _is_manual(state):
            self._manual.add(state.id)
        active, before = state.active_phase, self._withheld.pop(state.id, None)
        if state.paused is not None:
            granted = frozenset(active.granted if active is not None else ())
            if before is not None and granted - before:
                self._fail(f"{state.id} is paused, and grants a phase to {', '.join(sorted(granted - before))}")
            self._withheld[state.id] = granted

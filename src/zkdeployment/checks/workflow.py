"""The workflow of the configurations of check instances: one table of what each event does in each state.

The job (``ordering``), the life cycle (``life_cycle``) and the requests of monitoring systems and operators
(``requests``) only decide which events occur; ``transition`` applies the table. The picture of the manual is drawn
from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.checks.instance import CheckState, is_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.instance import CheckInstance, InstanceConfiguration


class CheckEvent(Enum):
    """An event of a configuration; each value is the cause in the manual's words."""

    COMPUTE = "computation: its details are known"
    DISCARD = "discarded: equal to the newest, replaced, or its instance is deleted"
    START = "ordering: nothing is to be undeployed before it"
    BLOCK = "ordering: the one before it is to be undeployed first"
    REPLACE = "ordering: a newer one differs"
    GHOST = "ghost removal: its instance is deleted"
    REMOVE_BLOCKED = "remove blocked deleted: its instance is deleted"
    UNBLOCK = "unblock: the one before it is deprovisioned"
    MAKE_WAY = "make way: a newer one waits for it"
    UNDEPLOY_DELETED = "active deletions: its instance is deleted"
    FETCH = "fetch"
    SUCCESS = "answer: success"
    FAILED = "answer: failed"
    RETRY = "retry by an operator"


class CheckEffect(Enum):
    """An effect of an event besides the new state."""

    BECOME_CURRENT = "it becomes the current configuration of its instance"
    SET_FLAG = "update_available is set"
    CLEAR_FLAG = "update_available is cleared"
    START_SUCCESSOR = "the configuration that waits for it starts"


class CheckGuard(Enum):
    """A condition of an event."""

    DELETED = "the instance is deleted"
    FLAGGED = "update_available is set"
    PREDECESSOR_GONE = "the configuration before it is deprovisioned or does not exist"
    HAS_SUCCESSOR = "a blocked configuration waits for it"


@dataclass(frozen=True, slots=True)
class CheckStep:
    """The result of an event: the state (``None``: the configuration is discarded), effects, conditions."""

    state: CheckState | None
    effects: frozenset[CheckEffect] = frozenset()
    guards: frozenset[CheckGuard] = frozenset()


_State, _Event, _Effect, _Guard = CheckState, CheckEvent, CheckEffect, CheckGuard

_FLAG = frozenset({_Effect.SET_FLAG})
_START = CheckStep(_State.AWAITING_ROLLOUT, frozenset({_Effect.BECOME_CURRENT, _Effect.SET_FLAG}))
_UNDEPLOY = CheckStep(_State.AWAITING_DEPROVISION, _FLAG)
_GONE = CheckStep(_State.AWAITING_DELETION)
_GONE_FOR_SUCCESSOR = CheckStep(_State.AWAITING_DELETION, frozenset({_Effect.START_SUCCESSOR}))
_DELETED = frozenset({_Guard.DELETED})
_GHOST = CheckStep(_State.AWAITING_DELETION, frozenset({_Effect.CLEAR_FLAG}), _DELETED)
_HAS_SUCCESSOR = frozenset({_Guard.HAS_SUCCESSOR})

#: What each event does in each state. An event without an entry is refused, or changes nothing.
WORKFLOW: Mapping[tuple[CheckState, CheckEvent], CheckStep] = {
    (_State.AWAITING_COMPUTATION, _Event.COMPUTE): CheckStep(_State.COMPUTED),
    (_State.AWAITING_COMPUTATION, _Event.DISCARD): CheckStep(None),
    (_State.COMPUTED, _Event.DISCARD): CheckStep(None),
    (_State.COMPUTED, _Event.START): _START,
    (_State.COMPUTED, _Event.BLOCK): CheckStep(_State.BLOCKED),
    (_State.BLOCKED, _Event.REPLACE): _GONE,
    (_State.AWAITING_ROLLOUT, _Event.REPLACE): _UNDEPLOY,
    (_State.ACTIVE, _Event.REPLACE): _UNDEPLOY,
    (_State.ROLLOUT_FAILED, _Event.REPLACE): _GONE_FOR_SUCCESSOR,
    (_State.AWAITING_COMPUTATION, _Event.GHOST): CheckStep(None, guards=_DELETED),
    (_State.COMPUTED, _Event.GHOST): CheckStep(None, guards=_DELETED),
    (_State.AWAITING_ROLLOUT, _Event.GHOST): replace(_GHOST, guards=_DELETED | {_Guard.FLAGGED}),
    (_State.ROLLOUT_FAILED, _Event.GHOST): _GHOST,
    (_State.DEPROVISIONED, _Event.GHOST): _GHOST,
    (_State.BLOCKED, _Event.REMOVE_BLOCKED): replace(_GONE, guards=_DELETED),
    (_State.BLOCKED, _Event.UNBLOCK): replace(_START, guards=frozenset({_Guard.PREDECESSOR_GONE})),
    (_State.ACTIVE, _Event.MAKE_WAY): replace(_UNDEPLOY, guards=_HAS_SUCCESSOR),
    (_State.ROLLOUT_FAILED, _Event.MAKE_WAY): replace(_GONE_FOR_SUCCESSOR, guards=_HAS_SUCCESSOR),
    (_State.ACTIVE, _Event.UNDEPLOY_DELETED): replace(_UNDEPLOY, guards=_DELETED),
    (_State.AWAITING_ROLLOUT, _Event.FETCH): CheckStep(_State.ROLLOUT_IN_PROGRESS),
    (_State.ROLLOUT_IN_PROGRESS, _Event.FETCH): CheckStep(_State.ROLLOUT_IN_PROGRESS),
    (_State.ACTIVE, _Event.FETCH): CheckStep(_State.ACTIVE),
    (_State.ROLLOUT_FAILED, _Event.FETCH): CheckStep(_State.ROLLOUT_IN_PROGRESS),
    (_State.AWAITING_DEPROVISION, _Event.FETCH): CheckStep(_State.DEPROVISION_IN_PROGRESS),
    (_State.DEPROVISION_IN_PROGRESS, _Event.FETCH): CheckStep(_State.DEPROVISION_IN_PROGRESS),
    (_State.DEPROVISION_FAILED, _Event.FETCH): CheckStep(_State.DEPROVISION_IN_PROGRESS),
    (_State.ROLLOUT_IN_PROGRESS, _Event.SUCCESS): CheckStep(_State.ACTIVE),
    (_State.DEPROVISION_IN_PROGRESS, _Event.SUCCESS): CheckStep(_State.DEPROVISIONED),
    (_State.ROLLOUT_IN_PROGRESS, _Event.FAILED): CheckStep(_State.ROLLOUT_FAILED),
    (_State.DEPROVISION_IN_PROGRESS, _Event.FAILED): CheckStep(_State.DEPROVISION_FAILED),
    (_State.ROLLOUT_FAILED, _Event.RETRY): CheckStep(_State.AWAITING_ROLLOUT, _FLAG),
    (_State.DEPROVISION_FAILED, _Event.RETRY): CheckStep(_State.AWAITING_DEPROVISION, _FLAG),
}


def transition(
    instance: CheckInstance, version: int, event: CheckEvent, now: float, reason: str | None = None
) -> CheckInstance | None:
    """Return an instance after an event on one of its versions; ``None`` if the event is impossible there.

    ``reason`` replaces that of the configuration.
    """
    configuration = instance.configuration(version)
    step = None if configuration is None else WORKFLOW.get((configuration.state, event))
    if configuration is None or step is None:
        return None
    if not all(_holds(guard, instance, configuration) for guard in step.guards):
        return None
    if step.state is None:
        kept = tuple(other for other in instance.configurations if other.version != version)
        return replace(instance, configurations=kept)
    if step.state is not configuration.state:
        instance = _moved(instance, configuration, step.state, now)
    if reason is not None:
        instance = _with(instance, version, reason=reason)
    return _with_effects(instance, version, step.effects, now)


def predecessor(instance: CheckInstance, version: int) -> InstanceConfiguration | None:
    """Return the configuration that a blocked version waits for: the newest before it that is kept."""
    earlier = [found for found in instance.configurations if found.version < version and is_kept(found)]
    return max(earlier, key=lambda found: found.version, default=None)


def has_successor(instance: CheckInstance, version: int) -> bool:
    """Return whether a blocked configuration waits for a version."""
    blocked = [found.version for found in instance.configurations if found.state is CheckState.BLOCKED]
    waited_for = [predecessor(instance, found) for found in blocked]
    return any(found is not None and found.version == version for found in waited_for)


def _holds(guard: CheckGuard, instance: CheckInstance, configuration: InstanceConfiguration) -> bool:
    match guard:
        case CheckGuard.DELETED:
            return instance.deleted
        case CheckGuard.FLAGGED:
            return instance.update_available
        case CheckGuard.PREDECESSOR_GONE:
            before = predecessor(instance, configuration.version)
            return before is None or before.state is CheckState.DEPROVISIONED
        case CheckGuard.HAS_SUCCESSOR:
            return has_successor(instance, configuration.version)


def _moved(
    instance: CheckInstance, configuration: InstanceConfiguration, state: CheckState, now: float
) -> CheckInstance:
    """Return an instance whose configuration has another state; a poke for its old state is answered."""
    if configuration.version == instance.current:
        instance = replace(instance, notified=None)
    return _with(instance, configuration.version, state=state, changed=now)


def _with_effects(
    instance: CheckInstance, version: int, effects: frozenset[CheckEffect], now: float
) -> CheckInstance:
    if CheckEffect.BECOME_CURRENT in effects:
        instance = replace(instance, current=version, notified=None)
    if CheckEffect.SET_FLAG in effects:
        instance = replace(instance, update_available=True, flag=instance.flag + 1, notified=None)
    if CheckEffect.CLEAR_FLAG in effects and version == instance.current:
        instance = replace(instance, update_available=False)
    if CheckEffect.START_SUCCESSOR in effects:
        later = (found.version for found in instance.configurations if found.version > version)
        blocked = (transition(instance, found, CheckEvent.UNBLOCK, now) for found in sorted(later))
        instance = next((started for started in blocked if started is not None), instance)
    return instance


def _with(instance: CheckInstance, version: int, **changes: Any) -> CheckInstance:
    """Return an instance with changes of one configuration."""
    configurations = (
        replace(found, **changes) if found.version == version else found for found in instance.configurations
    )
    return replace(instance, configurations=tuple(configurations))

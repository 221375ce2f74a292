"""The workflow of check instances: one table of effects of events, the job's part, the life cycle, and requests.

The job, the life cycle, and the requests of monitoring systems and operators (fetch, answer, lists, retry) only
decide which events occur; ``transition`` applies the table, from which the picture of the manual is drawn. A
comparison of details ignores the top-level keys that differ between all configurations, and the order of arrays at
any depth. A key with the value null equals a missing key. Numbers are equal if their values are equal: 1 equals
1.0, but not true. The functions return the instance itself if nothing changes, so that the job writes only changed
instances.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass
from zkdeployment.checks.rules.instance import (
    OPEN,
    UNDEPLOYING,
    UNORDERED,
    CheckDetails,
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    config_id,
    is_kept,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.json_values import Value


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

#: The effect of each event in each state. An event without an entry is refused, or changes nothing.
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

    ``reason`` replaces the reason of the configuration.
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
    """Return the configuration for which a blocked version waits: the newest kept one before it."""
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
    """Return an instance whose configuration has another state; its notification then counts as answered."""
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


#: The top-level keys of details that are not compared.
IGNORED_KEYS = frozenset({"config_id", "version", "task"})


def same_details(one: CheckDetails, other: CheckDetails) -> bool:
    """Return whether two configurations with these details are the same for a monitoring system."""
    return one is other or _comparable(one) == _comparable(other)


def _comparable(details: CheckDetails) -> object:
    return _canonical_object({key: value for key, value in details.items() if key not in IGNORED_KEYS})


def _canonical(value: object) -> tuple[str, Any]:
    """Return a JSON value in a form that can be compared and sorted: the name of its type, and its value."""
    if value is None:
        return "null", 0
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        return ("number", value) if math.isfinite(value) else ("text of a number", repr(value))
    if isinstance(value, str):
        return "text", value
    if isinstance(value, list | tuple):
        return "array", tuple(sorted(_canonical(item) for item in value))
    if isinstance(value, dict):
        return _canonical_object(value)
    raise TypeError(f"expected a JSON value, found {value!r}")


def _canonical_object(value: Mapping[str, object]) -> tuple[str, Any]:
    return "object", tuple(
        (key, _canonical(item)) for key, item in sorted(value.items(), key=_key) if item is not None
    )


def _key(item: tuple[str, object]) -> str:
    return item[0]


@dataclass(frozen=True, slots=True)
class WantedConfiguration:
    """The wanted configuration of an instance: its details, its monitoring system, and the publication."""

    details: CheckDetails
    system: str = ""
    publication: int = 0


def want(instance: CheckInstance, wanted: WantedConfiguration, now: float, *, is_reported: bool) -> CheckInstance:
    """Return an instance that is wanted with these details.

    A new version is added unless the newest one has the same details; old versions beyond ``KEPT_VERSIONS`` are
    then dropped. The version awaits its computation until the deployment's host reported the deployment
    (``is_reported``); then it is computed and ordered. An instance that was deleted is wanted again.
    """
    if instance.deleted:
        instance = replace(instance, deleted=False)
    waiting = next((found for found in reversed(instance.configurations) if found.state in UNORDERED), None)
    if waiting is None or not _is_same(waiting, wanted):
        waiting = None
    instance = _without_unordered(instance, waiting, now)
    if waiting is None:
        if not _needs_version(instance, wanted):
            return instance
        waiting = _next_version(instance, wanted, now)
        instance = _with_last_versions(replace(instance, configurations=(*instance.configurations, waiting)))
    return _order(instance, waiting, wanted, now) if is_reported else instance


def delete(instance: CheckInstance, now: float) -> CheckInstance:
    """Return an instance that is no longer wanted; the life cycle undeploys its active configuration."""
    instance = _without_unordered(instance, None, now)
    return instance if instance.deleted else replace(instance, deleted=True)


def _order(
    instance: CheckInstance, ordered: InstanceConfiguration, wanted: WantedConfiguration, now: float
) -> CheckInstance:
    """Return an instance after a version was computed and compared with the newest version before it."""
    version = ordered.version
    instance = _applied(instance, version, CheckEvent.COMPUTE, now)
    others = tuple(found for found in instance.configurations if found.version != version)
    before = replace(instance, configurations=others)
    newest = before.newest
    if newest is None:
        return _applied(instance, version, CheckEvent.START, now)
    if not _needs_version(before, wanted):
        return _applied(instance, version, CheckEvent.DISCARD, now)
    instance = _applied(instance, version, CheckEvent.BLOCK, now)
    return _applied(instance, newest.version, CheckEvent.REPLACE, now)


def _needs_version(instance: CheckInstance, wanted: WantedConfiguration) -> bool:
    """Return whether the newest version differs from the wanted one, or is being undeployed."""
    newest = instance.newest
    return newest is None or newest.state in UNDEPLOYING or not _is_same(newest, wanted)


def _is_same(configuration: InstanceConfiguration, wanted: WantedConfiguration) -> bool:
    return configuration.system == wanted.system and same_details(configuration.details, wanted.details)


def _next_version(instance: CheckInstance, wanted: WantedConfiguration, now: float) -> InstanceConfiguration:
    version = max((found.version for found in instance.configurations), default=-1) + 1
    return InstanceConfiguration(
        version=version,
        config_id=config_id(instance.id, version),
        state=CheckState.AWAITING_COMPUTATION,
        details=wanted.details,
        system=wanted.system,
        publication=wanted.publication,
        created=now,
        changed=now,
    )


def _without_unordered(instance: CheckInstance, kept: InstanceConfiguration | None, now: float) -> CheckInstance:
    """Return an instance without the versions that are not ordered yet, except ``kept``."""
    for found in instance.configurations:
        if found.state in UNORDERED and found is not kept:
            instance = _applied(instance, found.version, CheckEvent.DISCARD, now)
    return instance


def _applied(instance: CheckInstance, version: int, event: CheckEvent, now: float) -> CheckInstance:
    """Return an instance after an event, or the instance itself if the event changes nothing there."""
    return transition(instance, version, event, now) or instance


#: The steps of a turn, in order; the poke comes after them.
LIFE_CYCLE = (
    CheckEvent.GHOST,
    CheckEvent.REMOVE_BLOCKED,
    CheckEvent.UNBLOCK,
    CheckEvent.MAKE_WAY,
    CheckEvent.UNDEPLOY_DELETED,
)

#: A notified monitoring system that does not fetch is poked again after this time, in seconds.
POKE_AGAIN_AFTER = 300.0

#: Configurations that await their deletion are kept for this time, in seconds.
KEPT_FOR = 30 * 86400.0

#: The last versions of an instance that are kept; a monitoring system only needs those that are deployed or wait.
KEPT_VERSIONS = 20

#: The states in which only the history needs a configuration: it is not deployed, and nothing waits for it.
_PAST = frozenset({CheckState.DEPROVISIONED, CheckState.AWAITING_DELETION})

_FETCHED = frozenset(state for state, event in WORKFLOW if event is CheckEvent.FETCH)
_AWAITING = frozenset({CheckState.AWAITING_ROLLOUT, CheckState.AWAITING_DEPROVISION})


def life_cycle_turn(instance: CheckInstance, now: float) -> CheckInstance:
    """Return an instance after the steps of one turn, in order; the instance itself if nothing changes.

    All steps of an instance have to be written at once: blocked configurations must not start if the removal of
    configurations of a deleted instance failed.
    """
    for event in LIFE_CYCLE:
        moved = [found for found in instance.configurations if (found.state, event) in WORKFLOW]
        for configuration in moved:
            instance = transition(instance, configuration.version, event, now) or instance
    return instance


def is_poke_due(instance: CheckInstance, now: float) -> bool:
    """Return whether the monitoring system has to be poked, if it has a callback.

    A poke is due for each update, and again if the monitoring system did not fetch the update within
    ``POKE_AGAIN_AFTER`` seconds.
    """
    current = instance.current_configuration
    if current is None or current.state not in _FETCHED:
        return False
    if instance.update_available or instance.notified is None:
        return instance.update_available
    return current.state in _AWAITING and abs(now - instance.notified) >= POKE_AGAIN_AFTER


def poke_succeeded(instance: CheckInstance, flag: int, now: float) -> CheckInstance:
    """Return an instance after a successful poke for a setting of its flag.

    ``flag`` is the ``flag`` of the instance when the poke was sent: a flag that was set again after that stays
    set.
    """
    if instance.flag != flag:
        return instance
    return replace(instance, update_available=False, notified=now)


def prune(instance: CheckInstance, now: float) -> CheckInstance:
    """Return an instance without old configurations; a deleted one finally has no configuration left.

    A configuration is old if it has awaited its deletion for ``KEPT_FOR`` seconds, if it was undeployed before
    that time and has a successor, or if it is not among the last ``KEPT_VERSIONS``.
    """
    instance = _with_last_versions(instance)
    newest = instance.newest
    kept = []
    for found in instance.configurations:
        is_replaced = found.state is CheckState.DEPROVISIONED and found is not newest
        is_old = now - found.changed >= KEPT_FOR
        if not (is_old and (is_replaced or not is_kept(found))):
            kept.append(found)
    return instance if len(kept) == len(instance.configurations) else replace(instance, configurations=tuple(kept))


def _with_last_versions(instance: CheckInstance) -> CheckInstance:
    """Return an instance with its last ``KEPT_VERSIONS`` versions, and older ones that are still in use."""
    earlier = instance.configurations[:-KEPT_VERSIONS]
    kept = tuple(found for found in earlier if found.state not in _PAST or found.version == instance.current)
    if len(kept) == len(earlier):
        return instance
    return replace(instance, configurations=kept + instance.configurations[-KEPT_VERSIONS:])


class DeploymentTask(Enum):
    """The operation for which a monitoring system uses the details that it fetched."""

    ROLLOUT = "rollout"
    DEPROVISION = "deprovision"  # another version follows
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FetchedDeployment:
    """The answer to a monitoring system that fetches an instance."""

    configuration: InstanceConfiguration
    task: DeploymentTask

    def to_json(self) -> dict[str, Value]:
        """Return the body of the response."""
        identity: dict[str, Value] = {
            "config_id": self.configuration.config_id,
            "version": self.configuration.version,
        }
        return {**self.configuration.details, **identity, "task": self.task.value}


#: The events that lead to the removal of a configuration, from each state that a monitoring system may have.
_REMOVING_EVENTS = {
    CheckState.AWAITING_ROLLOUT: CheckEvent.FETCH,
    CheckState.ROLLOUT_IN_PROGRESS: CheckEvent.SUCCESS,
    CheckState.ROLLOUT_FAILED: CheckEvent.FETCH,
    CheckState.ACTIVE: CheckEvent.REPLACE,
    CheckState.AWAITING_DEPROVISION: CheckEvent.FETCH,
    CheckState.DEPROVISION_IN_PROGRESS: CheckEvent.SUCCESS,
    CheckState.DEPROVISION_FAILED: CheckEvent.FETCH,
}


@dataclass(frozen=True, slots=True)
class CheckRefusal:
    """Why an answer or a retry is refused."""

    reason: str


def fetch(instance: CheckInstance, now: float) -> tuple[CheckInstance, FetchedDeployment] | None:
    """Return an instance after a fetch, and the answer to the fetch; ``None`` if there is nothing to fetch."""
    current = instance.current_configuration
    fetched = None if current is None else transition(instance, current.version, CheckEvent.FETCH, now)
    if current is None or fetched is None:
        return None
    if current.state not in UNDEPLOYING:
        task = DeploymentTask.ROLLOUT
    elif has_successor(instance, current.version):
        task = DeploymentTask.DEPROVISION
    else:
        task = DeploymentTask.DELETE
    return fetched, FetchedDeployment(current, task)


def answer(
    instance: CheckInstance, *, is_success: bool, now: float, config_id: str | None = None, reason: str = ""
) -> CheckInstance | CheckRefusal:
    """Return an instance after the answer of its monitoring system, or why the answer is refused.

    ``config_id`` is the configuration that the answer concerns, if the monitoring system named it: a late answer
    does not count for the successor. ``reason`` is kept.
    """
    current = instance.current_configuration
    if current is not None and config_id is not None and config_id != current.config_id:
        return CheckRefusal(f"the answer is for {config_id}, but the current configuration is {current.config_id}")
    event = CheckEvent.SUCCESS if is_success else CheckEvent.FAILED
    return _requested(instance, event, now, reason)


def retry(instance: CheckInstance, now: float) -> CheckInstance | CheckRefusal:
    """Return an instance whose failed rollout or undeployment is tried again, or why that is refused."""
    return _requested(instance, CheckEvent.RETRY, now)


def abandon(instance: CheckInstance, system: str, now: float, reason: str = "") -> CheckInstance:
    """Return an instance as if a monitoring system that is gone had removed all its configurations.

    Each configuration takes the steps of the workflow up to ``deprovisioned``; ``reason`` is kept.
    """
    for configuration in instance.configurations:
        if configuration.system == system:
            instance = _removed(instance, configuration, now, reason)
    gone = instance.current_configuration
    if gone is not None and gone.system == system and gone.state is CheckState.DEPROVISIONED:
        return replace(instance, update_available=False)
    return instance


def _removed(
    instance: CheckInstance, configuration: InstanceConfiguration, now: float, reason: str
) -> CheckInstance:
    while configuration.state in _REMOVING_EVENTS:
        event = _REMOVING_EVENTS[configuration.state]
        stepped = transition(instance, configuration.version, event, now, reason)
        moved = None if stepped is None else stepped.configuration(configuration.version)
        assert stepped is not None  # noqa: S101  the workflow has these events
        assert moved is not None  # noqa: S101  none of them discards a configuration
        instance, configuration = stepped, moved
    return instance


def list_flagged(instance: CheckInstance, now: float) -> tuple[CheckInstance, bool]:
    """Return an instance after a list of updates, and whether the instance is in the list."""
    return _notified(instance, now), instance.update_available


def list_open(instance: CheckInstance, now: float) -> tuple[CheckInstance, bool]:
    """Return an instance after a list of all pending deployments, and whether the instance is in the list."""
    listed = is_open(instance)
    return (_notified(instance, now) if listed else instance), listed


def is_open(instance: CheckInstance) -> bool:
    """Whether an instance waits for its monitoring system."""
    return any(found.state in OPEN for found in instance.configurations)


def _notified(instance: CheckInstance, now: float) -> CheckInstance:
    return replace(instance, update_available=False, notified=now) if instance.update_available else instance


def _requested(
    instance: CheckInstance, event: CheckEvent, now: float, reason: str | None = None
) -> CheckInstance | CheckRefusal:
    current = instance.current_configuration
    if current is None:
        return CheckRefusal("the instance has no current configuration yet")
    changed = transition(instance, current.version, event, now, reason)
    if changed is None:
        expected = " or ".join(state.value for state, cause in WORKFLOW if cause is event)
        return CheckRefusal(f"the state is {current.state.value}; expected {expected}")
    return changed

"""The requests of monitoring systems and operators: fetch, answer, lists and retry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.checks.rules.instance import OPEN, UNDEPLOYING, CheckState
from zkdeployment.checks.rules.workflow import WORKFLOW, CheckEvent, has_successor, transition

if TYPE_CHECKING:
    from zkdeployment.checks.rules.instance import CheckInstance, InstanceConfiguration
    from zkdeployment.tree.values import Value


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

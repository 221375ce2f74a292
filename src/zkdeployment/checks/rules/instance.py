"""Check instances: the key, versioned configurations, flags, and changes of states as events report them.

The records of instances have this form in ZooKeeper. Changes of instances belong to ``workflow``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Annotated, Any, TypeAlias

from zkdeployment.base.records import APART, Record, no_keys
from zkdeployment.base.values import dataclass

#: All facts that a monitoring system needs about a check: a JSON object.
CheckDetails: TypeAlias = Mapping[str, Any]

#: One value of a property with several values; each value gets an instance.
AttributeValue: TypeAlias = bool | int | float | str

#: The namespace of the identifiers of instances and configurations. It must never change.
_NAMESPACE = uuid.UUID("b4192c95-33fe-5251-92dc-4f825ef1e3f1")


class CheckState(Enum):
    """The state of one configuration of a check instance."""

    AWAITING_COMPUTATION = "awaiting_computation"
    COMPUTED = "computed"
    BLOCKED = "blocked"
    AWAITING_ROLLOUT = "awaiting_rollout"
    ROLLOUT_IN_PROGRESS = "rollout_in_progress"
    ROLLOUT_FAILED = "rollout_failed"
    ACTIVE = "active"
    AWAITING_DEPROVISION = "awaiting_deprovision"
    DEPROVISION_IN_PROGRESS = "deprovision_in_progress"
    DEPROVISION_FAILED = "deprovision_failed"
    DEPROVISIONED = "deprovisioned"
    AWAITING_DELETION = "awaiting_deletion"


#: The states of a configuration before it is ordered.
UNORDERED = frozenset({CheckState.AWAITING_COMPUTATION, CheckState.COMPUTED})

#: The states of a configuration that is being undeployed, or was undeployed.
UNDEPLOYING = frozenset(
    {
        CheckState.AWAITING_DEPROVISION,
        CheckState.DEPROVISION_IN_PROGRESS,
        CheckState.DEPROVISION_FAILED,
        CheckState.DEPROVISIONED,
    }
)

#: The states in which a configuration waits for its monitoring system; a list of all deployments contains them.
OPEN = frozenset(
    {
        CheckState.AWAITING_ROLLOUT,
        CheckState.ROLLOUT_IN_PROGRESS,
        CheckState.AWAITING_DEPROVISION,
        CheckState.DEPROVISION_IN_PROGRESS,
    }
)

#: The states of a configuration that its monitoring system has and is not asked to change: those of a list of
#: active deployments.
DEPLOYED = frozenset({CheckState.ACTIVE, CheckState.DEPROVISION_FAILED})


@dataclass(frozen=True, slots=True)
class InstanceKey(Record):
    """The identity of a check instance: equal keys name the same instance.

    ``check`` is the name of the check configuration, ``host`` the identifier of a host, and ``attributes`` the
    values that were chosen of properties with several values, sorted by the names of the properties.
    """

    check: str
    path: str
    number: int
    host: str
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    @property
    def id(self) -> str:
        """The identifier of the instance: a UUID that follows from the key."""
        parts = [self.check, self.path, self.number, self.host, [list(pair) for pair in self.attributes]]
        return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))


@dataclass(frozen=True, slots=True)
class InstanceConfiguration(Record):
    """One version of a check instance, as its monitoring system gets it.

    ``details`` are provisional while the version awaits its computation, and never change afterwards. They contain
    neither ``config_id`` nor ``version`` nor ``task``. ``system`` is the monitoring system of this version,
    ``publication`` the sequence of the publication that wanted it. ``reason`` is the reason in the last answer of
    the monitoring system, ``changed`` the time at which the version entered its state, in seconds since the epoch.
    ``unknown`` are the keys of the record that this version does not know.
    """

    version: int
    config_id: str
    state: CheckState
    details: CheckDetails = field(default_factory=dict)
    system: str = ""
    publication: int = 0
    reason: str = ""
    created: float = 0.0
    changed: float = 0.0
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)


@dataclass(frozen=True, slots=True)
class CheckInstance(Record):
    """A check of one deployment on one host, with its configurations, oldest version first.

    ``current`` is the version that the monitoring system gets when it fetches the instance; ``None`` before the
    first. ``update_available`` is whether the monitoring system must still be notified, and ``flag`` counts how
    often that was set. ``notified`` is the time at which a poke or a list last notified the monitoring system, if
    the current configuration has not moved since. A ``deleted`` instance is no longer wanted. ``unknown`` are the
    keys of the record that this version does not know.
    """

    key: InstanceKey
    configurations: tuple[InstanceConfiguration, ...] = ()
    current: int | None = None
    update_available: bool = False
    deleted: bool = False
    flag: int = 0
    notified: float | None = None
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def id(self) -> str:
        """The identifier of the instance."""
        return self.key.id

    @property
    def current_configuration(self) -> InstanceConfiguration | None:
        """The configuration that the monitoring system gets; ``None`` if it does not exist."""
        return None if self.current is None else self.configuration(self.current)

    @property
    def newest(self) -> InstanceConfiguration | None:
        """The newest configuration that does not await its deletion; ``None`` if it does not exist."""
        return next((found for found in reversed(self.configurations) if is_kept(found)), None)

    @property
    def system(self) -> str:
        """The monitoring system that the instance belongs to now; empty if it has no configuration."""
        configuration = self.current_configuration or self.newest
        return "" if configuration is None else configuration.system

    def configuration(self, version: int) -> InstanceConfiguration | None:
        """Return the configuration with a version; ``None`` if it does not exist."""
        for found in self.configurations:  # called so often that a generator would be noticeably slower
            if found.version == version:
                return found
        return None


def is_kept(configuration: InstanceConfiguration) -> bool:
    """Return whether a configuration does not await its deletion."""
    return configuration.state is not CheckState.AWAITING_DELETION


def config_id(instance: str, version: int) -> str:
    """Return the identifier of a version of an instance: a UUID that follows from both."""
    return str(uuid.uuid5(uuid.UUID(instance), str(version)))


@dataclass(frozen=True, slots=True)
class CheckChange(Record):
    """A check instance that changed its state; the state ``None`` stands for an instance that does not exist."""

    instance: Annotated[str, APART]
    check: str
    path: str
    number: int
    host: str
    monitoring: str
    former: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class LastCheckChanges:
    """The changes of the last transaction that changed states: ``total``, of which the first ones are listed.

    ``number`` counts these transactions.
    """

    number: int
    total: int
    changes: tuple[CheckChange, ...] = ()


def state_changes(
    pairs: Iterable[tuple[CheckInstance | None, CheckInstance | None]],
) -> tuple[CheckChange, ...]:
    """Return the changes of states between instances before and after a transaction."""
    return tuple(change for before, after in pairs if (change := _change(before, after)) is not None)


def _change(before: CheckInstance | None, after: CheckInstance | None) -> CheckChange | None:
    found, former, state = after or before, _state(before), _state(after)
    if found is None or former == state:
        return None
    key = found.key
    return CheckChange(found.id, key.check, key.path, key.number, key.host, found.system, former, state)


def _state(instance: CheckInstance | None) -> str | None:
    configuration = None if instance is None else instance.current_configuration or instance.newest
    return None if configuration is None else configuration.state.value

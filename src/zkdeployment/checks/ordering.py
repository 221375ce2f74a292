"""The job's part of the workflow: which configurations an instance gets, and their computation and ordering.

The functions return the instance itself if nothing changes, so that the job writes only what changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.checks.comparison import same_details
from zkdeployment.checks.instance import (
    UNDEPLOYING,
    UNORDERED,
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    config_id,
)
from zkdeployment.checks.workflow import CheckEvent, transition

if TYPE_CHECKING:
    from zkdeployment.checks.instance import CheckDetails


@dataclass(frozen=True, slots=True)
class WantedConfiguration:
    """The wanted configuration of an instance: its details, its monitoring system, and the publication."""

    details: CheckDetails
    system: str = ""
    publication: int = 0


def want(instance: CheckInstance, wanted: WantedConfiguration, now: float, *, is_reported: bool) -> CheckInstance:
    """Return an instance that is wanted with these details.

    A new version is added unless the newest one is the same. The version awaits its computation until the
    deployment's host reported the deployment (``is_reported``); then it is computed and ordered. An instance that
    was deleted is wanted again.
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
        instance = replace(instance, configurations=(*instance.configurations, waiting))
    return _order(instance, waiting, wanted, now) if is_reported else instance


def delete(instance: CheckInstance, now: float) -> CheckInstance:
    """Return an instance that is not wanted any more; the life cycle undeploys what is deployed of it."""
    instance = _without_unordered(instance, None, now)
    return instance if instance.deleted else replace(instance, deleted=True)


def _order(
    instance: CheckInstance, ordered: InstanceConfiguration, wanted: WantedConfiguration, now: float
) -> CheckInstance:
    """Return an instance with a version computed, and compared with the newest version before it."""
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
    """Return whether the newest version is not what is wanted, or is being undeployed."""
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
    """Return an instance without the versions that are not ordered yet, except one."""
    for found in instance.configurations:
        if found.state in UNORDERED and found is not kept:
            instance = _applied(instance, found.version, CheckEvent.DISCARD, now)
    return instance


def _applied(instance: CheckInstance, version: int, event: CheckEvent, now: float) -> CheckInstance:
    """Return an instance after an event, or the instance itself if the event changes nothing there."""
    return transition(instance, version, event, now) or instance

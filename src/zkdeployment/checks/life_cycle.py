"""The life cycle: what happens to an instance in each turn of the coordinator, and which instances are poked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.checks.instance import CheckState, is_kept
from zkdeployment.checks.workflow import WORKFLOW, CheckEvent, transition

if TYPE_CHECKING:
    from zkdeployment.checks.instance import CheckInstance

#: The steps of a turn, in order. The poke follows them.
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

#: The states of a configuration that only its history needs: nothing is deployed, and nothing waits for it.
_PAST = frozenset({CheckState.DEPROVISIONED, CheckState.AWAITING_DELETION})

_FETCHED = frozenset(state for state, event in WORKFLOW if event is CheckEvent.FETCH)
_AWAITING = frozenset({CheckState.AWAITING_ROLLOUT, CheckState.AWAITING_DEPROVISION})


def life_cycle_turn(instance: CheckInstance, now: float) -> CheckInstance:
    """Return an instance after the steps of one turn, in order; the instance itself if nothing changes.

    All steps of an instance are to be written at once: blocked configurations must not start if those of a deleted
    instance could not be removed.
    """
    for event in LIFE_CYCLE:
        moved = [found for found in instance.configurations if (found.state, event) in WORKFLOW]
        for configuration in moved:
            instance = transition(instance, configuration.version, event, now) or instance
    return instance


def is_poke_due(instance: CheckInstance, now: float) -> bool:
    """Return whether the monitoring system is to be poked, if it has a callback.

    A poke is due when there is something new to fetch, and again when the monitoring system did not fetch it
    within ``POKE_AGAIN_AFTER`` seconds.
    """
    current = instance.current_configuration
    if current is None or current.state not in _FETCHED:
        return False
    if instance.update_available or instance.notified is None:
        return instance.update_available
    return current.state in _AWAITING and abs(now - instance.notified) >= POKE_AGAIN_AFTER


def poke_succeeded(instance: CheckInstance, flag: int, now: float) -> CheckInstance:
    """Return an instance after a successful poke for a setting of its flag.

    ``flag`` is the ``flag`` of the instance when the poke was sent: a flag that was set again since stays set.
    """
    if instance.flag != flag:
        return instance
    return replace(instance, update_available=False, notified=now)


def prune(instance: CheckInstance, now: float) -> CheckInstance:
    """Return an instance without old configurations; nothing is left of a deleted one in the end.

    Old are configurations that have awaited their deletion for ``KEPT_FOR`` seconds, those that were undeployed
    before that time and have a successor, and those before the last ``KEPT_VERSIONS``.
    """
    instance = with_last_versions(instance)
    newest = instance.newest
    kept = []
    for found in instance.configurations:
        is_replaced = found.state is CheckState.DEPROVISIONED and found is not newest
        is_old = now - found.changed >= KEPT_FOR
        if not (is_old and (is_replaced or not is_kept(found))):
            kept.append(found)
    return instance if len(kept) == len(instance.configurations) else replace(instance, configurations=tuple(kept))


def with_last_versions(instance: CheckInstance) -> CheckInstance:
    """Return an instance with its last ``KEPT_VERSIONS`` versions, and older ones that are current or not past."""
    earlier = instance.configurations[:-KEPT_VERSIONS]
    kept = tuple(found for found in earlier if found.state not in _PAST or found.version == instance.current)
    if len(kept) == len(earlier):
        return instance
    return replace(instance, configurations=kept + instance.configurations[-KEPT_VERSIONS:])

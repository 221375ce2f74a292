"""The health of hosts after a deployment: the results of the checks of their deployments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.checks.instance import CheckState
from zkdeployment.checks.monitoring_system import ResultState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.checks.instance import CheckInstance, InstanceKey
    from zkdeployment.checks.monitoring_system import CheckResult

#: The most characters of an output that a reason quotes.
_LONGEST_OUTPUT = 80


@dataclass(frozen=True, slots=True)
class HostHealth:
    """The hosts that are not healthy, each with the reason.

    ``unhealthy`` are the hosts with a check that is not OK, ``unchecked`` those with a check that has no result
    since the deployment, or that its monitoring system does not run yet.
    """

    unhealthy: Mapping[str, str] = field(default_factory=dict)
    unchecked: Mapping[str, str] = field(default_factory=dict)


def host_health(
    wanted: Iterable[InstanceKey],
    instances: Mapping[str, CheckInstance],
    results: Mapping[str, CheckResult],
    since: Mapping[str, float],
) -> HostHealth:
    """Return the health of hosts.

    ``wanted`` are the keys of the checks that the publication wants on these hosts. ``instances`` and ``results``
    are keyed by identifier. ``since`` is the time of each host's deployment, by id.
    """
    unhealthy: dict[str, str] = {}
    unchecked: dict[str, str] = {}
    for key in wanted:
        instance, result = instances.get(key.id), results.get(key.id)
        obstacle = _obstacle(instance, result, since[key.host])
        if obstacle is not None:
            unchecked.setdefault(key.host, f"check {_name(key)} {obstacle}")
        elif result is not None and result.state is not ResultState.OK:
            output = result.output[:_LONGEST_OUTPUT].partition("\n")[0]
            unhealthy.setdefault(key.host, f"check {_name(key)} is {result.state.value}: {output}")
    return HostHealth(unhealthy, unchecked)


def _obstacle(instance: CheckInstance | None, result: CheckResult | None, since: float) -> str | None:
    """Return why the result of a check does not count for the deployment; ``None`` if it counts."""
    newest = None if instance is None else instance.newest
    if newest is None:
        return "was not computed yet"
    if newest.state is not CheckState.ACTIVE:
        return f"is {newest.state.value}" + (f": {newest.reason[:_LONGEST_OUTPUT]}" if newest.reason else "")
    if result is None or not result.is_of(newest.config_id) or not result.is_newer(since, newest.changed):
        return "has no result since the deployment"
    return None


def _name(key: InstanceKey) -> str:
    values = "".join(f", {name} {value}" for name, value in key.attributes)
    return f"{key.check} of {key.path} {key.number}{values}"

"""A real service for monitoring systems: instances in ZooKeeper, and the client of the bridge over HTTP."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from zkdeployment.checks.nagios.service import HttpMonitoringService
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceKey
from zkdeployment.checks.rules.workflow import WantedConfiguration, delete, life_cycle_turn, want
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from support.service import RunningService


class ServedMonitoringService:
    """What ``SimulatedMonitoringService`` offers to tests, with the instances of a real service.

    ``client`` is the port that the bridge uses.
    """

    def __init__(self, service: RunningService, name: str = "nagios1") -> None:
        self.user, self.key = service.add_user(Role.MONITORING, name)
        self.url = service.url
        self.client = HttpMonitoringService(service.url, self.user, self.key)
        self._adapters = service.adapters
        self._times = itertools.count(1.0)

    def want(self, key: InstanceKey, details: Mapping[str, Any]) -> str:
        """Want an instance with these details, and return its identifier."""
        wanted = WantedConfiguration(details, str(details["monitoring"]), 1)
        self._change(
            key.id, lambda found: want(found or CheckInstance(key), wanted, next(self._times), is_reported=True)
        )
        return key.id

    def delete(self, instance: str) -> None:
        """Want an instance no more."""
        self._change(instance, lambda found: delete(_existing(found), next(self._times)))

    def turn(self) -> None:
        """Run one turn of the life cycle."""
        for found in [*check_adapters_of(self._adapters).instances.scan()]:
            self._change(found.id, lambda found: life_cycle_turn(_existing(found), next(self._times)))

    def state(self, instance: str) -> CheckState | None:
        """Return the state of the current configuration."""
        current = check_adapters_of(self._adapters).instances.find([instance])[instance].current_configuration
        return None if current is None else current.state

    def reason(self, instance: str) -> str:
        """Return the words of the last answer about the current configuration."""
        current = check_adapters_of(self._adapters).instances.find([instance])[instance].current_configuration
        return "" if current is None else current.reason

    def result(self, instance: str) -> tuple[str, str] | None:
        """Return the state and the output of the last result."""
        found = check_adapters_of(self._adapters).systems.results(self.user, [instance]).get(instance)
        return None if found is None else (found.state.value, found.output)

    def _change(self, instance: str, change: Callable[[CheckInstance | None], CheckInstance]) -> None:
        check_adapters_of(self._adapters).instances.change([instance], lambda _, found: change(found))


def _existing(instance: CheckInstance | None) -> CheckInstance:
    assert instance is not None
    return instance

"""Services for a Nagios bridge: one in memory with the real workflow of check instances, and a real one."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import ServiceError
from zkdeployment.checks.nagios.batch import DeployedInstances, FetchedDetails
from zkdeployment.checks.nagios.service import HttpMonitoringService
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.instance import (
    DEPLOYED,
    CheckInstance,
    CheckState,
    InstanceConfiguration,
    InstanceKey,
    config_id,
)
from zkdeployment.checks.rules.workflow import (
    CheckRefusal,
    WantedConfiguration,
    answer,
    delete,
    fetch,
    life_cycle_turn,
    list_flagged,
    list_open,
    retry,
    want,
)
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from support.service import RunningService
    from zkdeployment.checks.nagios.batch import CheckAnswer
    from zkdeployment.checks.nagios.files import NagiosResult


class SimulatedMonitoringService:
    """A ``MonitoringService`` whose instances a test makes and removes; ``broken`` lets every request fail."""

    def __init__(self) -> None:
        self.instances: dict[str, CheckInstance] = {}
        self.results: dict[str, NagiosResult] = {}
        self.all_results: set[str] = set()
        self.reports = 0
        self.working: set[str] = set()
        self.broken = False
        self.removal_allowed = False
        self._lock = threading.RLock()
        self._times = itertools.count(1.0)

    # What the job, the life cycle and operators do

    def want(self, key: InstanceKey, details: Mapping[str, Any]) -> str:
        """Want an instance with these details, and return its identifier."""
        with self._lock:
            instance = self.instances.get(key.id, CheckInstance(key))
            wanted = WantedConfiguration(details, str(details["monitoring"]), 1)
            self.instances[key.id] = want(instance, wanted, self._now(), is_reported=True)
        return key.id

    def delete(self, instance: str) -> None:
        """Want an instance no more."""
        with self._lock:
            self.instances[instance] = delete(self.instances[instance], self._now())

    def retry(self, instance: str) -> None:
        """Let the failed deployment or removal of an instance be tried again."""
        with self._lock:
            outcome = retry(self.instances[instance], self._now())
            assert not isinstance(outcome, CheckRefusal)
            self.instances[instance] = outcome

    def turn(self) -> None:
        """Run one turn of the life cycle."""
        with self._lock:
            for name, instance in self.instances.items():
                self.instances[name] = life_cycle_turn(instance, self._now())

    def deploy_silently(self, instance: str, details: Mapping[str, Any]) -> None:
        """Make another configuration active, as a service whose content was restored."""
        with self._lock:
            number = len(self.instances[instance].configurations)
            found = InstanceConfiguration(
                number, config_id(instance, number), CheckState.ACTIVE, details, "nagios1"
            )
            self.instances[instance] = replace(
                self.instances[instance], configurations=(found,), current=number, update_available=False
            )

    def state(self, instance: str) -> CheckState | None:
        """Return the state of the current configuration."""
        current = self.instances[instance].current_configuration
        return None if current is None else current.state

    def configuration(self, instance: str) -> str:
        """Return the id of the current configuration."""
        current = self.instances[instance].current_configuration
        return "" if current is None else current.config_id

    def reason(self, instance: str) -> str:
        """Return the words of the last answer about the current configuration."""
        current = self.instances[instance].current_configuration
        return "" if current is None else current.reason

    def result(self, instance: str) -> tuple[str, str] | None:
        """Return the state and the output of the last result."""
        found = self.results.get(instance)
        return None if found is None else (found.state, found.output)

    @property
    def client(self) -> SimulatedMonitoringService:
        """The port that the bridge uses."""
        return self

    # What the bridge does

    def list_flagged(self) -> frozenset[str]:
        return self._listed(list_flagged)

    def list_pending(self) -> frozenset[str]:
        return self._listed(list_open)

    def list_deployed(self) -> DeployedInstances:
        self._check()
        with self._lock:
            states = {name: self.state(name) for name in self.instances}
            configurations = {
                name: self.configuration(name) for name in self.instances if states[name] in DEPLOYED
            }
        return DeployedInstances(
            frozenset(name for name, state in states.items() if state is CheckState.ACTIVE),
            frozenset(name for name, state in states.items() if state is CheckState.DEPROVISION_FAILED),
            configurations,
            self.removal_allowed,
        )

    def fetch(self, instances: Sequence[str]) -> FetchedDetails:
        self._check()
        details: dict[str, Mapping[str, Any]] = {}
        with self._lock:
            for instance in instances:
                found = self.instances.get(instance)
                fetched = None if found is None else fetch(found, self._now())
                if fetched is not None:
                    self.instances[instance], deployment = fetched
                    details[instance] = deployment.to_json()
        return FetchedDetails(details)

    def answer(self, answers: Sequence[CheckAnswer]) -> Mapping[str, str]:
        self._check()
        with self._lock:
            for given in answers:
                found = self.instances.get(given.instance)
                if found is None:
                    continue
                answered = answer(
                    found,
                    is_success=not given.problem,
                    now=self._now(),
                    config_id=given.config_id,
                    reason=given.problem,
                )
                if not isinstance(answered, CheckRefusal):
                    self.instances[given.instance] = answered
        return {}

    def report_results(self, results: Mapping[str, NagiosResult]) -> frozenset[str]:
        self._check()
        self.reports += 1
        own = {
            name: result
            for name, result in results.items()
            if name in self.instances and result.config_id in {"", self.configuration(name)}
        }
        self.results |= own
        self.all_results |= {result.output for result in own.values()}
        return frozenset(results.keys() - own)

    def list_working_hosts(self) -> frozenset[str]:
        self._check()
        return frozenset(self.working)

    def _listed(self, question: Any) -> frozenset[str]:
        self._check()
        with self._lock:
            listed = set()
            for name, instance in self.instances.items():
                self.instances[name], is_listed = question(instance, self._now())
                if is_listed:
                    listed.add(name)
        return frozenset(listed)

    def _check(self) -> None:
        if self.broken:
            raise ServiceError("cannot reach the service: it is switched off")

    def _now(self) -> float:
        return next(self._times)


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

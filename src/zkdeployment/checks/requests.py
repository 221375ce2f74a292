"""The requests of monitoring systems: fetches and answers of check instances, lists, and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.errors import (
    ConfigurationError,
    ForbiddenError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
)
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules import requests
from zkdeployment.checks.rules.instance import DEPLOYED
from zkdeployment.checks.rules.monitoring_system import SystemContact
from zkdeployment.checks.rules.overview import expected_configuration, read_instance_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.checks.rules.instance import CheckInstance, InstanceConfiguration
    from zkdeployment.checks.rules.monitoring_system import CheckResult
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.tree.values import Value

#: The most characters of the reason of an answer that are kept.
_LONGEST_REASON = 1000

_RESULTS = {"success": True, "failed": False}


@dataclass(frozen=True, slots=True)
class ManyFetched:
    """The answers for many instances by id: details, reasons for having nothing to deploy, and failures."""

    deployments: Mapping[str, Mapping[str, Value]]
    missing: Mapping[str, str]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ManyAnswer:
    """The result of one of many deployments."""

    is_success: bool
    config_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ManyAnswered:
    """The answered instances, the reasons of refused answers, and the failures; all by id."""

    answered: Mapping[str, CheckInstance]
    refused: Mapping[str, str]
    failed: Mapping[str, str]


def check_system(user: str, system: str) -> None:
    """Raise ``ForbiddenError`` unless a user is the monitoring system."""
    if user != system:
        raise ForbiddenError(f"the user {user} may not ask for the deployments of the monitoring system {system}")


def hold_lease(adapters: ServerAdapters, system: str, bridge: str) -> None:
    """Renew the lease of a monitoring system for a bridge; raises ``LeaseHeldError`` if another one holds it."""
    lease = check_adapters_of(adapters).systems.lease(system, bridge, adapters.clock.now())
    if lease is not None and lease.holder != bridge:
        raise LeaseHeldError(
            f"another bridge gets the updates of the monitoring system {system}: {lease.holder}, until"
            f" {lease.end}; end one of them, or give it a monitoring system of its own"
        )


def fetch_deployment(adapters: ServerAdapters, system: str, text: str) -> Mapping[str, Value]:
    """Return the task of a monitoring system for an instance, which is in progress from now on."""
    now, instance_id = adapters.clock.now(), read_instance_id(text)
    fetched: requests.FetchedDeployment | None = None

    def change(_: str, instance: CheckInstance | None) -> CheckInstance:
        nonlocal fetched
        own = _own(instance, system, instance_id)
        outcome = requests.fetch(own, now)
        if outcome is None:
            raise NotFoundError(_nothing_to_deploy(own))
        after, fetched = outcome
        return after

    check_adapters_of(adapters).instances.change([instance_id], change)
    check_adapters_of(adapters).systems.note_contact(system, SystemContact(fetched=now))
    assert fetched is not None  # noqa: S101  the change either raised or was made
    return fetched.to_json()


def answer_deployment(
    adapters: ServerAdapters, system: str, text: str, result: str, *, config_id: str | None, reason: str | None
) -> CheckInstance:
    """Record the result of a deployment; return the instance afterwards."""
    now, instance_id = adapters.clock.now(), read_instance_id(text)
    if result not in _RESULTS:
        raise ConfigurationError(f"unknown result: expected success or failed, found {result[:100]!a}")

    def change(_: str, instance: CheckInstance | None) -> CheckInstance:
        after = requests.answer(
            _own(instance, system, instance_id),
            is_success=_RESULTS[result],
            now=now,
            config_id=config_id,
            reason=(reason or "")[:_LONGEST_REASON],
        )
        if isinstance(after, requests.CheckRefusal):
            raise RefusedError(f"no such answer is expected for the check instance {instance_id}: {after.reason}")
        return after

    _, after = check_adapters_of(adapters).instances.change([instance_id], change)[instance_id]
    assert after is not None  # noqa: S101  no answer removes an instance
    return after


def fetch_deployments(adapters: ServerAdapters, system: str, texts: Collection[str]) -> ManyFetched:
    """Return the tasks of a monitoring system for instances, which are in progress from now on."""
    now, ids = adapters.clock.now(), {*map(read_instance_id, texts)}
    fetched: dict[str, Mapping[str, Value]] = {}
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}

    def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
        fetched.pop(instance_id, None)
        if instance is None or instance.system != system:
            missing[instance_id] = _not_its_own(system, instance_id)
            return instance
        outcome = requests.fetch(instance, now)
        if outcome is None:
            missing[instance_id] = _nothing_to_deploy(instance)
            return instance
        missing.pop(instance_id, None)
        after, deployment = outcome
        fetched[instance_id] = deployment.to_json()
        return after

    written = check_adapters_of(adapters).instances.change(ids, change, failed.update)
    check_adapters_of(adapters).systems.note_contact(system, SystemContact(fetched=now))
    return ManyFetched(
        {instance: details for instance, details in sorted(fetched.items()) if instance in written},
        {instance: reason for instance, reason in sorted(missing.items()) if instance in written},
        failed,
    )


def answer_deployments(adapters: ServerAdapters, system: str, answers: Mapping[str, ManyAnswer]) -> ManyAnswered:
    """Record the results of deployments, by instance; refused results change nothing."""
    now = adapters.clock.now()
    by_id = {read_instance_id(text): answer for text, answer in answers.items()}
    refused: dict[str, str] = {}
    failed: dict[str, str] = {}

    def change(instance_id: str, instance: CheckInstance | None) -> CheckInstance | None:
        refused.pop(instance_id, None)
        if instance is None or instance.system != system:
            refused[instance_id] = _not_its_own(system, instance_id)
            return instance
        given = by_id[instance_id]
        after = requests.answer(
            instance,
            is_success=given.is_success,
            now=now,
            config_id=given.config_id,
            reason=given.reason[:_LONGEST_REASON],
        )
        if isinstance(after, requests.CheckRefusal):
            refused[instance_id] = after.reason
            return instance
        return after

    written = check_adapters_of(adapters).instances.change(by_id, change, failed.update)
    answered = {
        instance_id: after
        for instance_id, (_, after) in written.items()
        if after is not None and instance_id not in refused
    }
    return ManyAnswered(answered, refused, failed)


def list_flagged(adapters: ServerAdapters, system: str) -> Collection[str]:
    """Return the instances with an update of which the system was not notified, and record the notification."""
    return _list(adapters, system, check_adapters_of(adapters).instances.flagged(system), requests.list_flagged)


def list_open(adapters: ServerAdapters, system: str) -> Collection[str]:
    """Return the instances that wait for the monitoring system, and record that it was notified of all."""
    return _list(adapters, system, check_adapters_of(adapters).instances.open(system), requests.list_open)


def list_deployed(adapters: ServerAdapters, system: str) -> Mapping[str, InstanceConfiguration]:
    """Return the configurations that the monitoring system has, by instance: active ones, and failed removals."""
    return {
        instance.id: current
        for instance in check_adapters_of(adapters).instances.scan()
        if instance.system == system
        and (current := instance.current_configuration) is not None
        and current.state in DEPLOYED
    }


def report_results(adapters: ServerAdapters, system: str, results: Mapping[str, CheckResult]) -> Collection[str]:
    """Record results; return the instances whose results do not count.

    These results concern instances of other systems, unknown ones, and instances whose result names another
    configuration.
    """
    reported = {read_instance_id(instance): result for instance, result in results.items()}
    found = check_adapters_of(adapters).instances.find([*reported])
    expected = {instance: expected_configuration(found.get(instance), system) for instance in reported}
    own = {
        instance: result
        for instance, result in reported.items()
        if (configuration := expected[instance]) is not None and result.is_of(configuration)
    }
    dropped = {instance: result.config_id or "" for instance, result in reported.items() if instance not in own}
    now = adapters.clock.now()
    check_adapters_of(adapters).systems.record_results(system, own)
    check_adapters_of(adapters).systems.record_drift(system, dropped, own.keys(), now)
    check_adapters_of(adapters).systems.note_contact(system, SystemContact(reported=now))
    return dropped.keys()


def hosts_at_work(adapters: ServerAdapters) -> Collection[str]:
    """Return the ids of the hosts that are in a step of a deployment, and do not wait for their turn."""
    hosts = adapters.feed.snapshot().fleet.hosts
    return [
        host.identity.id
        for host in hosts
        if host.deploying is not None and host.step is not None and not host.is_waiting
    ]


def _list(
    adapters: ServerAdapters,
    system: str,
    instances: Collection[str],
    request: Callable[[CheckInstance, float], tuple[CheckInstance, bool]],
) -> Collection[str]:
    """Return the instances that a list contains, and record that the monitoring system was notified."""
    now = adapters.clock.now()

    def change(_: str, instance: CheckInstance | None) -> CheckInstance | None:
        return instance if instance is None or instance.system != system else request(instance, now)[0]

    changed = check_adapters_of(adapters).instances.change(instances, change)
    check_adapters_of(adapters).systems.note_contact(system, SystemContact(fetched=now))
    return [
        instance
        for instance, (before, _) in changed.items()
        if before is not None and before.system == system and request(before, now)[1]
    ]


def _own(instance: CheckInstance | None, system: str, instance_id: str) -> CheckInstance:
    """Return an instance that belongs to the monitoring system; raises ``NotFoundError`` for any other."""
    if instance is None or instance.system != system:
        raise NotFoundError(_not_its_own(system, instance_id))
    return instance


def _not_its_own(system: str, instance_id: str) -> str:
    return f"the monitoring system {system} has no check instance {instance_id}"


def _nothing_to_deploy(instance: CheckInstance) -> str:
    current = instance.current_configuration
    state = "it has no configuration yet" if current is None else f"its state is {current.state.value}"
    return f"there is nothing to deploy for the check instance {instance.id}: {state}"

"""The acts of operators on check instances and monitoring systems: retry, abandon, allow removals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.base.act import ActRight
from zkdeployment.base.json_values import with_schema
from zkdeployment.checks.opening import check_adapters_of
from zkdeployment.checks.rules.overview import instance_to_view, instance_view, read_instance_id
from zkdeployment.service.act import Actor, PlannedAct, Visit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.ports import CheckAdapters
    from zkdeployment.checks.rules.instance import CheckInstance

#: The right to the acts on checks.
ACT_ON_CHECK = ActRight("act on checks of services")


class _ActOnChecks(PlannedAct["CheckAdapters"]):
    RIGHT = ACT_ON_CHECK

    @classmethod
    def served(cls, visit: Visit) -> CheckAdapters:
        """Return the adapters of operators for checks."""
        return check_adapters_of(visit.adapters)


@dataclass(frozen=True, kw_only=True)
class RetryInstance(_ActOnChecks):
    """Let the monitoring system try a failed deployment, or undeployment, again; 409 in any other state."""

    OPERATION = "retry_instance"
    REQUEST = "An act that needs no reason."
    NEEDS_BODY = False
    NEEDS_REASON = False

    uuid: str

    def perform(self, adapters: CheckAdapters, actor: Actor) -> Mapping[str, Any]:
        instance = adapters.find(read_instance_id(self.uuid))
        path = (instance.key.path,) if instance.key.path else ()
        (changed,) = adapters.retry([instance], actor.record(self, f"checks retry {instance.id}", *path))
        now, host = actor.now(), changed.key.host
        result = adapters.results([changed], now).get(changed.id)
        return instance_to_view(changed, result, adapters.fleet.maintenance(now).get(host))

    @classmethod
    def answer(cls, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_schema("check-instance", outcome)


@dataclass(frozen=True, kw_only=True)
class AbandonSystem(_ActOnChecks):
    """End the instances of a monitoring system that is gone; return them. 409 while published checks name it."""

    OPERATION = "abandon_system"

    system: str

    def perform(self, adapters: CheckAdapters, actor: Actor) -> tuple[CheckInstance, ...]:
        return adapters.abandon(self.system, actor.record(self, f"checks abandon --system {self.system}"))

    @classmethod
    def answer(cls, outcome: tuple[CheckInstance, ...]) -> Mapping[str, Any]:
        shown = [instance_view(instance, None).to_json() for instance in outcome]
        return with_schema("check-instances", {"instances": shown})


@dataclass(frozen=True, kw_only=True)
class AllowRemoval(_ActOnChecks):
    """Allow a bridge to remove many checks that the service does not know, for an hour."""

    OPERATION = "allow_removal"

    system: str

    def perform(self, adapters: CheckAdapters, actor: Actor) -> Mapping[str, Any]:
        act = actor.record(self, f"checks allow-removal --system {self.system}")
        return {"monitoring": self.system, "until": adapters.allow_removal(self.system, act)}

    @classmethod
    def answer(cls, outcome: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_schema("allowed-removal", outcome)

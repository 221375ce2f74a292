"""The simulation of one check instance: events are played on the same functions as those of a fleet."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.checks.instance import CheckInstance
from zkdeployment.checks.life_cycle import is_poke_due, life_cycle_turn, poke_succeeded
from zkdeployment.checks.ordering import WantedConfiguration, delete, want
from zkdeployment.checks.requests import CheckRefusal, answer, fetch, list_flagged, list_open, retry
from zkdeployment.checks.simulation_input import DETAILED_EVENTS, SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.checks.simulation_input import SimulatedEvent, SimulationInput
    from zkdeployment.model.tree import Value

#: The seconds from one turn of the life cycle to the next.
TURN_INTERVAL = 20.0

_OK, _NOT_FOUND, _CONFLICT = "ok", "not found", "conflict"


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """An event, what it was answered with, and the instance afterwards (``None``: it does not exist yet)."""

    event: str
    instance: CheckInstance | None
    answer: str = _OK
    reply: Value = None
    poked: bool = False

    def to_json(self) -> dict[str, Value]:
        """Return the step as JSON."""
        instance = self.instance or CheckInstance(SIMULATED)
        configurations: list[Value] = [
            {
                "version": found.version,
                "state": found.state.value,
                "details": copy.deepcopy(dict(found.details)),
            }
            for found in instance.configurations
        ]
        return {
            "event": self.event,
            "answer": self.answer,
            "reply": copy.deepcopy(self.reply),
            "poked": self.poked,
            "configurations": configurations,
            "current": instance.current,
            "update_available": instance.update_available,
            "deleted": instance.deleted,
        }


def play(simulation: SimulationInput) -> Iterator[SimulatedStep]:
    """Yield a step for each event of a simulation. Each tick is a turn of the life cycle, 20 s after the last."""
    instance, now = simulation.start, 0.0
    for event in simulation.events:
        if event.name == "tick":
            now += TURN_INTERVAL
            step = _tick(instance, now, callback=simulation.callback, poke_fails=event.poke_fails)
        elif event.name in DETAILED_EVENTS:
            wanted = WantedConfiguration(event.details)
            step = SimulatedStep(
                event.name, want(instance or CheckInstance(SIMULATED), wanted, now, is_reported=True)
            )
        elif instance is None:
            step = _without_instance(event)
        else:
            step = _request(instance, event.name, now)
        instance = step.instance
        yield step


def _tick(instance: CheckInstance | None, now: float, *, callback: bool, poke_fails: bool) -> SimulatedStep:
    """Return a turn of the life cycle; the answer to its poke is there before the turn ends."""
    if instance is None:
        return SimulatedStep("tick", None)
    instance = life_cycle_turn(instance, now)
    poked = callback and is_poke_due(instance, now)
    if poked and not poke_fails:
        instance = poke_succeeded(instance, instance.flag, now)
    return SimulatedStep("tick", instance, poked=poked)


def _without_instance(event: SimulatedEvent) -> SimulatedStep:
    """Return what happens to a request for an instance that was never created."""
    match event.name:
        case "list" | "list-all":
            return SimulatedStep(event.name, None, reply=False)
        case "retry":
            return SimulatedStep(event.name, None, _CONFLICT)
        case _:
            return SimulatedStep(event.name, None, _NOT_FOUND)


def _request(instance: CheckInstance, name: str, now: float) -> SimulatedStep:
    """Return what a deletion, or a request of the monitoring system or of an operator does."""
    match name:
        case "delete":
            return SimulatedStep(name, delete(instance, now))
        case "fetch":
            fetched = fetch(instance, now)
            if fetched is None:
                return SimulatedStep(name, instance, _NOT_FOUND)
            instance, deployment = fetched
            details = deployment.configuration.details
            return SimulatedStep(name, instance, reply={**details, "task": deployment.task.value})
        case "list" | "list-all":
            instance, is_listed = (list_flagged if name == "list" else list_open)(instance, now)
            return SimulatedStep(name, instance, reply=is_listed)
        case "retry":
            result = retry(instance, now)
        case _:
            result = answer(instance, is_success=name == "success", now=now)
    if isinstance(result, CheckRefusal):
        return SimulatedStep(name, instance, _CONFLICT)
    return SimulatedStep(name, result)

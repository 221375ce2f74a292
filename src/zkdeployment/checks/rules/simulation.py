"""The simulation of one check instance: its input, and events played on the functions of the service."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NoReturn

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.values import dataclass
from zkdeployment.checks.rules.instance import (
    CheckDetails,
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
    is_poke_due,
    life_cycle_turn,
    list_flagged,
    list_open,
    poke_succeeded,
    retry,
    want,
)
from zkdeployment.documents.forms import TRUTH, Fault, form_faults, list_form, mapping_form, one_of
from zkdeployment.documents.yaml_values import YamlTextError, parse_yaml, typed_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.json_values import Value


#: The instance of a simulation.
SIMULATED = InstanceKey(check="simulated", path="/", number=0, host="simulated")

#: The events that need the details of the wanted configuration, and the other events.
DETAILED_EVENTS = ("create", "change")
PLAIN_EVENTS = ("delete", "tick", "fetch", "success", "failed", "list", "list-all", "retry")

_DEEPEST = 100

_ANY: dict[str, Any] = {"type": ["object", "array", "integer", "number", "boolean", "null"]}
_ANY |= {"additionalProperties": _ANY, "items": _ANY}

_VERSION = {"type": "integer", "minimum": 0, "description": "a version: a whole number from 0 on"}
_DETAILS = {"type": "object", "description": "details: a mapping"}
_STATES = [state.value for state in CheckState]
_EVENTS = [*DETAILED_EVENTS, *PLAIN_EVENTS]


def _mapping(description: str, required: Mapping[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    return {**mapping_form(required, optional), "description": description}


_CONFIGURATION = _mapping(
    "a mapping with version, state and details",
    {"version": _VERSION, "state": {"enum": _STATES, "description": one_of(_STATES)}, "details": _DETAILS},
    {},
)
_START = _mapping(
    "null, or a mapping with configurations, current, update_available and deleted",
    {"configurations": list_form(_CONFIGURATION, "a list of configurations")},
    {
        "current": {**_VERSION, "type": ["integer", "null"], "description": "a version or null"},
        "update_available": TRUTH,
        "deleted": TRUTH,
    },
) | {"type": ["object", "null"]}
_EVENT = _mapping(
    "a mapping with the key event, which create and change need details with",
    {"event": {"enum": _EVENTS, "description": one_of(_EVENTS)}},
    {"details": _DETAILS, "poke": {"enum": ["fails"], "description": "fails"}},
)
_FORM = _mapping(
    "a mapping with callback, start and events",
    {"events": list_form(_EVENT, "a list of events")},
    {"callback": TRUTH, "start": _START},
)


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """An event of a simulation; ``details`` are those of ``create`` and ``change``."""

    name: str
    details: CheckDetails
    poke_fails: bool = False


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The start of a simulation and its events; ``callback`` is whether the monitoring system can be poked."""

    callback: bool
    start: CheckInstance | None
    events: tuple[SimulatedEvent, ...]


def read_simulation(source: str, content: bytes) -> SimulationInput:
    """Return the input of a simulation; raises ``ConfigurationError`` with the place in ``source``."""
    value = _value(source, content)
    for way, message in _faults(value):
        place = ".".join(str(part) for part in way)
        raise ConfigurationError(f"{source}: {place}: {message}" if place else f"{source}: {message}")
    start = value.get("start")
    return SimulationInput(
        callback=value.get("callback", True),
        start=None if start is None else _instance(start),
        events=tuple(_event(event) for event in value["events"]),
    )


def _value(source: str, content: bytes) -> Any:
    """Return the value of JSON or YAML text, nested no deeper than it can be compared."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: expected UTF-8; convert the file") from error
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{"):
            value = _yaml_value(
                source, text, f"{source}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}"
            )
        else:
            value = _yaml_value(source, text)
    except ValueError as error:
        raise ConfigurationError(f"{source}: not valid JSON: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{source}: {_TOO_DEEP}") from error
    if _is_deeper(value, _DEEPEST):
        raise ConfigurationError(f"{source}: {_TOO_DEEP}")
    return value


_TOO_DEEP = f"expected values nested at most {_DEEPEST} deep"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _yaml_value(source: str, text: str, json_message: str | None = None) -> object:
    """Return the value of YAML text; ``json_message`` is the error for text that looks like JSON."""
    try:
        documents = list(parse_yaml(text))
    except YamlTextError as error:
        message = json_message or f"{source}:{error.line}:{error.column}: {error}"
        raise ConfigurationError(message) from error
    if len(documents) != 1:
        raise ConfigurationError(f"{source}: expected one document, found {len(documents)}")
    return typed_values(documents[0].value, _ANY)


def _is_deeper(value: object, depth: int) -> bool:
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return depth == 0 or any(_is_deeper(item, depth - 1) for item in items)
    return False


def _faults(value: Any) -> Iterator[Fault]:
    """Yield the deviations from the form, then the faults that the form cannot express."""
    faults = list(form_faults(value, _FORM))
    yield from faults
    if faults:
        return
    versions = [found["version"] for found in (value.get("start") or {}).get("configurations", ())]
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield (
                ("start", "configurations", number, "version"),
                f"expected each version once, found {version} again",
            )
    for number, event in enumerate(value["events"]):
        name = event["event"]
        if ("details" in event) != (name in DETAILED_EVENTS):
            expected = "details" if name in DETAILED_EVENTS else "no details"
            yield ("events", number), f"expected {expected} with the event {name}"
        if "poke" in event and name != "tick":
            yield ("events", number), f"expected no poke with the event {name}; only ticks poke"


def _instance(start: Mapping[str, Any]) -> CheckInstance:
    configurations = (
        InstanceConfiguration(
            version=int(found["version"]),
            config_id=config_id(SIMULATED.id, int(found["version"])),
            state=CheckState(found["state"]),
            details=found["details"],
        )
        for found in sorted(start["configurations"], key=lambda found: int(found["version"]))
    )
    return CheckInstance(
        key=SIMULATED,
        configurations=tuple(configurations),
        current=None if start.get("current") is None else int(start["current"]),
        update_available=start.get("update_available", False),
        deleted=start.get("deleted", False),
    )


def _event(event: Mapping[str, Any]) -> SimulatedEvent:
    return SimulatedEvent(event["event"], event.get("details", {}), poke_fails="poke" in event)


#: The seconds from one turn of the life cycle to the next.
TURN_INTERVAL = 20.0

_OK, _NOT_FOUND, _CONFLICT = "ok", "not found", "conflict"


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """An event, the answer to it, and the instance afterwards (``None``: the instance does not exist yet)."""

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
    """Return a turn of the life cycle, whose poke is answered before the turn ends."""
    if instance is None:
        return SimulatedStep("tick", None)
    instance = life_cycle_turn(instance, now)
    poked = callback and is_poke_due(instance, now)
    if poked and not poke_fails:
        instance = poke_succeeded(instance, instance.flag, now)
    return SimulatedStep("tick", instance, poked=poked)


def _without_instance(event: SimulatedEvent) -> SimulatedStep:
    """Return the outcome of a request for an instance that was never created."""
    match event.name:
        case "list" | "list-all":
            return SimulatedStep(event.name, None, reply=False)
        case "retry":
            return SimulatedStep(event.name, None, _CONFLICT)
        case _:
            return SimulatedStep(event.name, None, _NOT_FOUND)


def _request(instance: CheckInstance, name: str, now: float) -> SimulatedStep:
    """Return the outcome of a deletion, or of a request of the monitoring system or of an operator."""
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

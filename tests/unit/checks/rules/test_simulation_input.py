"""The input of a simulation: JSON and YAML, and a message for all other texts."""

import json

import pytest

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.checks.rules.simulation import SimulatedEvent, read_simulation

EVENTS = [{"event": "create", "details": {"port": 80}}, {"event": "tick", "poke": "fails"}]


def read(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return read_simulation("events", text.encode())


def refused(value):
    with pytest.raises(ConfigurationError) as raised:
        read(value)
    assert raised.value.exit_code == 2
    return str(raised.value)


def test_json_is_read():
    simulation = read({"callback": False, "start": None, "events": EVENTS})
    assert (simulation.callback, simulation.start) == (False, None)
    assert simulation.events == (
        SimulatedEvent("create", {"port": 80}),
        SimulatedEvent("tick", {}, poke_fails=True),
    )


def test_the_callback_and_the_start_may_be_omitted():
    simulation = read({"events": []})
    assert (simulation.callback, simulation.start, simulation.events) == (True, None, ())


def test_yaml_is_read_with_types():
    simulation = read("""
callback: true
start:
  configurations:
  - {version: 2, state: active, details: {port: 80, name: "80", on: [true, null, 0.5, text]}}
  current: 2
  update_available: false
  deleted: false
events:
- event: list-all
""")
    assert simulation.start is not None
    assert simulation.start.current == 2
    assert simulation.start.configurations[0].details == {
        "port": 80,
        "name": "80",
        "on": [True, None, 0.5, "text"],
    }


def test_the_versions_of_a_start_are_sorted():
    configurations = [{"version": number, "state": "active", "details": {}} for number in (2, 0, 1)]
    simulation = read({"start": {"configurations": configurations}, "events": []})
    assert simulation.start is not None
    assert [found.version for found in simulation.start.configurations] == [0, 1, 2]


CONFIGURATION = {"version": 0, "state": "active", "details": {}}

REFUSED = {
    "a list": ([], "events: expected a mapping with callback, start and events, found []"),
    "a long text": ("x" * 500, f"expected a mapping with callback, start and events, found '{'x' * 99}…"),
    "a number": (5, "expected a mapping with callback, start and events, found 5"),
    "null": (None, "expected a mapping"),
    "no text": ("", "expected one document, found 0"),
    "two documents": ("events: []\n---\nevents: []", "expected one document, found 2"),
    "broken json": ('{"events": [}', "events:1:13: not valid JSON: Expecting value"),
    "broken yaml": ("events: [", "not valid YAML"),
    "two values of json": ("{} {}", "not valid JSON: Extra data"),
    "no events": ({}, "expected a mapping with callback, start and events, found {}"),
    "events in a mapping": ({"events": {}}, "events: expected a list of events, found {}"),
    "an event in a list": ({"events": [[]]}, "events.0: expected a mapping with the key event"),
    "an event without a name": ({"events": [{}]}, "events.0: expected a mapping with the key event"),
    "an unknown event": (
        {"events": [{"event": "poke"}]},
        "list, list-all, retry, success, tick, found 'poke'",
    ),
    "an event that is a list": ({"events": [{"event": ["tick"]}]}, "events.0.event: expected one of"),
    "an unknown key": ({"events": [], "stat": None}, "stat: unknown key 'stat'; did you mean start?"),
    "create without details": ({"events": [{"event": "create"}]}, "expected details with the event create"),
    "details of a tick": (
        {"events": [{"event": "tick", "details": {}}]},
        "expected no details with the event tick",
    ),
    "details in a list": ({"events": [{"event": "create", "details": []}]}, "expected details: a mapping"),
    "a poke of a fetch": ({"events": [{"event": "fetch", "poke": "fails"}]}, "expected no poke with the event"),
    "a poke that sleeps": (
        {"events": [{"event": "tick", "poke": "sleeps"}]},
        "poke: expected fails, found 'sleeps'",
    ),
    "a callback in words": ({"callback": "yes", "events": []}, "callback: expected true or false, found 'yes'"),
    "a start in words": ({"start": "active", "events": []}, "start: expected null, or a mapping"),
    "an empty start": ({"start": {}, "events": []}, "start: expected null, or a mapping"),
    "an unknown state": (
        {"start": {"configurations": [CONFIGURATION | {"state": "asleep"}]}, "events": []},
        "start.configurations.0.state: expected one of: active,",
    ),
    "a version below 0": (
        {"start": {"configurations": [CONFIGURATION | {"version": -1}]}, "events": []},
        "start.configurations.0.version: expected a version: a whole number from 0 on, found -1",
    ),
    "a version that is true": (
        {"start": {"configurations": [CONFIGURATION | {"version": True}]}, "events": []},
        "expected a version",
    ),
    "a version twice": (
        {"start": {"configurations": [CONFIGURATION, CONFIGURATION]}, "events": []},
        "start.configurations.1.version: expected each version once, found 0 again",
    ),
    "a current in words": (
        {"start": {"configurations": [], "current": "0"}, "events": []},
        "start.current: expected a version or null, found '0'",
    ),
    "a number that JSON lacks": ('{"events": [], "callback": NaN}', "not valid JSON: NaN is not a number of JSON"),
    "an endless number": ('{"events": [], "callback": ' + "9" * 5000 + "}", "not valid JSON"),
    "deep details": (
        {"events": [{"event": "create", "details": json.loads('{"a":' * 150 + "1" + "}" * 150)}]},
        "expected values nested at most 100 deep",
    ),
    "bottomless lists": ("[" * 100_000, "nested"),
    "a bottomless value": ("[" * 100_000 + "]" * 100_000, "expected values nested at most 100 deep"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused_with_a_message(name):
    value, message = REFUSED[name]
    assert message in refused(value)


def test_text_that_is_not_utf_8_is_refused():
    with pytest.raises(ConfigurationError, match="expected UTF-8"):
        read_simulation("events", b"\xff\xfe")

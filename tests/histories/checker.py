"""Judges the history of a fleet by the promises of the manual alone.

The checker imports nothing of the program, of the simulation or of the chaos runs: their own checks may share a
mistake with what they check. A history is a sequence of events, one JSON object on each line, with the key
``event``, and the key ``time`` in seconds:

- ``begin``: the script ``script`` of ``host`` begins. It has to be alone under ``lock`` (null: it needs no lock).
  The host could learn of stops since ``reachable``. ``despite_stop`` is true if no stop prevents this script.
- ``end``: ``script`` ends.
- ``release``: the lock ``lock`` is released.
- ``down``: ``host`` goes down, because a step that needs ``lock`` reboots it.
- ``up``: ``host`` has booted, or operators have declared it dead.
- ``reboot``: it is recorded that ``host`` reboots and is expected back.
- ``back``: that record is removed.
- ``missing``: it is recorded that ``host`` did not come back. ``stopped`` is whether the failure took effect: it
  stops the fleet, or is reported to the rollout that judges it (null: unknown).
- ``cluster``: the fleet runs at ``version`` (null: it is stopped), with the stops ``stops`` on record (null:
  unknown). The state was current at some moment from ``since`` to ``time``, and has lasted while ``written`` is
  the same.
- ``converged``: all faults have ended, and the fleet has deployed everything.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    Event = dict[str, Any]

#: Seconds in which a reachable host learns of a stop; its session may take this time to notice a lost connection.
GRACE = 25.0

#: The keys of each kind of event, besides ``event`` and ``time``.
KEYS = {
    "begin": {"script", "host", "lock", "reachable", "despite_stop"},
    "end": {"script"},
    "release": {"lock"},
    "down": {"host", "lock"},
    "up": {"host"},
    "reboot": {"host"},
    "back": {"host"},
    "missing": {"host", "stopped"},
    "cluster": {"since", "version", "stops", "written"},
    "converged": set(),
}


def read_history(lines: Iterable[str]) -> list[Event]:
    """Parse the lines of a history; raise ``ValueError`` for a line that is not an event."""
    events = []
    for number, line in enumerate(lines, 1):
        event = json.loads(line)
        keys = KEYS.get(event.get("event"))
        if keys is None or event.keys() != {"event", "time"} | keys:
            raise ValueError(f"line {number} of the history is not an event: {line.strip()}")
        events.append(event)
    return events


def judge(history: Iterable[Event]) -> list[str]:
    """Return one sentence for each promise that a history breaks, in the order of time."""
    events = sorted(history, key=lambda event: event["time"])
    return [
        *_broken_locks(events),
        *_broken_reboots(events),
        *_endless_reboots(events),
        *_late_scripts(events),
        *_ignored_stops(events),
    ]


def _broken_locks(events: list[Event]) -> list[str]:
    """Promise: one script at a time runs under a lock, which stays held until the script ends."""
    findings: list[str] = []
    running: dict[str, Event] = {}
    for event in events:
        match event["event"]:
            case "begin":
                findings += [
                    f"two scripts under {event['lock']}: {other['script']} runs, {_at(event)}"
                    for other in _under(event["lock"], running)
                ]
                running[event["script"]] = event
            case "end":
                if running.pop(event["script"], None) is None:
                    findings.append(f"{event['script']} ends at {event['time']:.1f} s, but never began")
            case "release":
                findings += [
                    f"{event['lock']} is released at {event['time']:.1f} s while {other['script']} runs"
                    for other in _under(event["lock"], running)
                ]
            case "converged":
                findings += [f"the fleet has converged, but {script} still runs" for script in running]
    return findings


def _under(lock: str | None, running: dict[str, Event]) -> list[Event]:
    return [event for event in running.values() if lock is not None and event["lock"] == lock]


def _broken_reboots(events: list[Event]) -> list[str]:
    """Promise: one host of a lock at most is down for a reboot, and the lock is kept for that host."""
    findings: list[str] = []
    down: dict[str, str | None] = {}
    for event in events:
        lock, host = event.get("lock"), event.get("host")
        others = [other for other, held in down.items() if other != host and lock is not None and held == lock]
        match event["event"]:
            case "down":
                findings += [
                    f"two hosts of {lock} are down at {event['time']:.1f} s: {other} and {host}"
                    for other in others
                ]
                down[event["host"]] = lock
            case "up":
                down.pop(event["host"], None)
            case "begin":
                findings += [f"{_at(event)} under {lock} while {other} is down" for other in others]
            case "release":
                findings += [
                    f"{lock} is released at {event['time']:.1f} s while {other} is down" for other in others
                ]
    return findings


def _endless_reboots(events: list[Event]) -> list[str]:
    """Promise: a recorded reboot ends: the host is back, or its failure stops the fleet."""
    findings: list[str] = []
    recorded: set[str] = set()
    for event in events:
        match event["event"]:
            case "reboot":
                recorded.add(event["host"])
            case "back":
                recorded.discard(event["host"])
            case "missing":
                recorded.discard(event["host"])
                if event["stopped"] is False:
                    findings.append(f"{event['host']} is missing at {event['time']:.1f} s, but the fleet goes on")
            case "converged":
                findings += [f"the fleet has converged, but the reboot of {host} has no end" for host in recorded]
    return findings


def _late_scripts(events: list[Event]) -> list[str]:
    """Promise: after a stop, no script begins on a host that can learn of the stop."""
    findings = []
    for stopped, lasting in _stops(events):
        for event in events:
            if event["event"] != "begin" or event["despite_stop"]:
                continue
            if max(stopped, event["reachable"]) + GRACE < event["time"] <= lasting:
                findings.append(f"{_at(event)}, {event['time'] - stopped:.1f} s after the stop")
    return findings


def _stops(events: list[Event]) -> list[tuple[float, float]]:
    """Return the times at which the fleet certainly was stopped: pairs of begin and end."""
    stops: dict[int, tuple[float, float]] = {}
    for event in events:
        if event["event"] == "cluster" and event["version"] is None:
            begin, _ = stops.get(event["written"], (event["time"], 0.0))
            stops[event["written"]] = (begin, event["since"])
    return list(stops.values())


def _ignored_stops(events: list[Event]) -> list[str]:
    """Promise: while a stop is on record, the fleet is stopped."""
    return [
        f"at {event['time']:.1f} s a stop is on record ({', '.join(event['stops'])}), but the fleet runs at"
        f" {event['version']}"
        for event in events
        if event["event"] == "cluster" and event["stops"] and event["version"] is not None
    ]


def _at(event: Event) -> str:
    return f"{event['script']} begins on {event['host']} at {event['time']:.1f} s"

"""The status file of Nagios: the results of checks, and the downtimes that the bridge has requested."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.nagios.object_files import instance_of_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Value

#: The author of downtimes in Nagios.
DOWNTIME_AUTHOR = "zkdeployment"

_BLOCK = re.compile(r"^(info|servicestatus|servicedowntime) \{\n(.*?)^\s*\}$", re.MULTILINE | re.DOTALL)
_STATES = {"0": "ok", "1": "warning", "2": "critical", "3": "unknown"}
_OUTPUT_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class NagiosResult:
    """The result of a check: ok, warning, critical or unknown ``since`` a time, and the plugin's output.

    ``checked`` is when the plugin ran last, 0 if that is unknown. Times are in seconds since the epoch.
    ``config_id`` is the configuration that ran; a status file does not name it.
    """

    state: str
    output: str
    since: float
    checked: float = 0.0
    config_id: str = ""

    def to_json(self) -> dict[str, Value]:
        """Return the result as the service reads it."""
        checked: dict[str, Value] = {"checked": self.checked} if self.checked > 0 else {}
        config_id: dict[str, Value] = {"config_id": self.config_id} if self.config_id else {}
        return {"state": self.state, "output": self.output, "since": self.since, **checked, **config_id}


@dataclass(frozen=True, slots=True)
class NagiosStatus:
    """The status that Nagios has written at the time ``created``.

    ``results`` are keyed by check instance; checks that have not run yet are missing. ``downtimes`` are the ends
    of downtimes by host name.
    """

    created: float = 0.0
    results: Mapping[str, NagiosResult] = field(default_factory=dict)
    downtimes: Mapping[str, float] = field(default_factory=dict)


def read_status_file(text: str) -> NagiosStatus:
    """Return the status in the text of a status file; unreadable parts are missing."""
    created = 0.0
    results: dict[str, NagiosResult] = {}
    downtimes: dict[str, float] = {}
    for kind, body in _BLOCK.findall(text):
        values = _values(body)
        if kind == "info":
            created = _number(values, "created")
        elif kind == "servicedowntime":
            if values.get("author") == DOWNTIME_AUTHOR:
                host, end = values.get("host_name", ""), _number(values, "end_time")
                downtimes[host] = max(end, downtimes.get(host, 0.0))
        elif (instance := instance_of_command(values.get("check_command", ""))) is not None:
            state = _STATES.get(values.get("current_state", ""))
            if state is not None and values.get("has_been_checked") == "1":
                output = values.get("plugin_output", "")[:_OUTPUT_LIMIT]
                since, checked = _number(values, "last_state_change"), _number(values, "last_check")
                results[instance] = NagiosResult(state, output, since, checked)
    return NagiosStatus(created, results, downtimes)


def _values(body: str) -> dict[str, str]:
    lines = (line.strip().partition("=") for line in body.splitlines())
    return {key: value for key, separator, value in lines if separator}


def _number(values: Mapping[str, str], key: str) -> float:
    try:
        number = float(values.get(key, ""))
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0

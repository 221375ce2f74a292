"""The output of Nagios: results and downtimes in its status file, its verification, and reports of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.records import OMITTED, Record
from zkdeployment.base.text import printable
from zkdeployment.checks.nagios.object_files import instance_of_command, nagios_host_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.checks.nagios.check import NagiosCheck


#: Nagios only warns of a duplicate definition, but the errors that follow do not name the definition.
_ERROR = re.compile(r"^\s*(?:Error: *|Warning: *(?=Duplicate definition))(.+)$", re.MULTILINE)
_LIMIT = 1000


def verification_words(output: str) -> str:
    """Return the errors in the output of a verification that failed, in one line."""
    errors = list(dict.fromkeys(match[1].strip() for match in _ERROR.finditer(output)))
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(" / ".join(errors or lines[-3:]))[:_LIMIT] or "Nagios printed nothing"


#: The author of downtimes in Nagios.
DOWNTIME_AUTHOR = "zkdeployment"

_BLOCK = re.compile(r"^(info|servicestatus|servicedowntime) \{\n(.*?)^\s*\}$", re.MULTILINE | re.DOTALL)
_STATES = {"0": "ok", "1": "warning", "2": "critical", "3": "unknown"}
_OUTPUT_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class NagiosResult(Record):
    """The result of a check: its state, the time ``since`` which it has the state, and the plugin's output.

    ``checked`` is when the plugin ran last, 0 if that is unknown. Times are in seconds since the epoch.
    ``config_id`` is the configuration that ran; a status file does not name it.
    """

    state: str
    output: str
    since: float
    checked: Annotated[float, OMITTED] = 0.0
    config_id: Annotated[str, OMITTED] = ""


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


#: The most characters of the outputs in a request, whose body may have 1 MiB; and the addition for each result.
_BATCH = 100_000
_EACH = 150

#: Seconds. Downtimes are short and renewed: they end by themselves if the bridge is killed.
_DOWNTIME = 180
_RENEWED = 90


def result_batches(results: Mapping[str, NagiosResult]) -> Iterator[dict[str, NagiosResult]]:
    """Yield the results in parts that fit into one request each; one empty part if there are no results."""
    batch: dict[str, NagiosResult] = {}
    size = 0
    for instance, result in sorted(results.items()):
        size += len(result.output) + _EACH
        if batch and size > _BATCH:
            yield batch
            batch, size = {}, len(result.output) + _EACH
        batch[instance] = result
    yield batch


def changed_results(
    results: Mapping[str, NagiosResult], reported: Mapping[str, NagiosResult], *, refresh: bool
) -> dict[str, NagiosResult]:
    """Return the results that differ from those that were reported.

    With ``refresh``, each new run of the plugin makes the result differ; otherwise only another output or another
    state does.
    """
    return {
        instance: result
        for instance, result in results.items()
        if (former := reported.get(instance)) is None
        or (result if refresh else replace(result, checked=former.checked)) != former
    }


def results_of_checks(
    results: Mapping[str, NagiosResult], checks: Mapping[str, NagiosCheck], written: Mapping[str, float]
) -> dict[str, NagiosResult]:
    """Return the results of these checks with their configurations.

    ``written`` is when the definition of each check was written: Nagios keeps the result of a former definition
    until the plugin has run again. Nagios records whole seconds.
    """
    return {
        instance: replace(result, config_id=checks[instance].config_id)
        for instance, result in results.items()
        if instance in checks and result.checked >= int(written.get(instance, 0.0))
    }


def downtime_hosts(hosts: Collection[str], checks: Iterable[NagiosCheck]) -> frozenset[str]:
    """Return the names in Nagios of the given hosts (by id) that have checks."""
    return frozenset(nagios_host_name(check) for check in checks if check.host_id in hosts)


def due_downtimes(hosts: Collection[str], ends: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the hosts that need a downtime now, with its end; ``ends`` are the ends of present downtimes."""
    return {host: now + _DOWNTIME for host in sorted(hosts) if ends.get(host, 0.0) < now + _RENEWED}


def downtime_command(host: str, now: float, end: float) -> str:
    """Return the external command for a downtime of all services of a host."""
    comment = "a deployment is in progress"
    return (
        f"[{now:.0f}] SCHEDULE_HOST_SVC_DOWNTIME;{host};{now:.0f};{end:.0f};1;0;{end - now:.0f};"
        f"{DOWNTIME_AUTHOR};{comment}"
    )

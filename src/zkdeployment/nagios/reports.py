"""The reports of the bridge: results of checks to the service, and downtimes to Nagios."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.nagios.object_files import nagios_host_name
from zkdeployment.nagios.status_file import DOWNTIME_AUTHOR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.nagios.check import NagiosCheck
    from zkdeployment.nagios.status_file import NagiosResult

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

    With ``refresh``, a result is another one as soon as the plugin ran again; else only if it printed something
    else or returned another state.
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
    """Return the names in Nagios of those hosts (by id) that have checks."""
    return frozenset(nagios_host_name(check) for check in checks if check.host_id in hosts)


def due_downtimes(hosts: Collection[str], ends: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the hosts that need a downtime now, with its end; ``ends`` are those of present downtimes."""
    return {host: now + _DOWNTIME for host in sorted(hosts) if ends.get(host, 0.0) < now + _RENEWED}


def downtime_command(host: str, now: float, end: float) -> str:
    """Return the external command for a downtime of all services of a host."""
    comment = "a deployment is in progress"
    return (
        f"[{now:.0f}] SCHEDULE_HOST_SVC_DOWNTIME;{host};{now:.0f};{end:.0f};1;0;{end - now:.0f};"
        f"{DOWNTIME_AUTHOR};{comment}"
    )

"""The present findings of checks about a host or a service, the worst first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.checks.instance import CheckState
from zkdeployment.checks.monitoring_system import ResultState, is_stale
from zkdeployment.checks.overview import host_name, is_failed, overview_to_json, shown_configuration, shown_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.checks.monitoring_system import CheckResult, SystemContact
    from zkdeployment.model.tree import Value

#: The states in which nothing of an instance is deployed any more: its last result does not count.
_GONE = frozenset({CheckState.DEPROVISIONED, CheckState.AWAITING_DELETION})

#: The words for findings, the worst first.
FINDING_WORDS = ("failed", "critical", "unknown", "warning", "pending", "ok")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A check instance with its last result; the result is unknown if its monitoring system is silent."""

    instance: CheckInstance
    result: CheckResult | None = None

    @property
    def word(self) -> str:
        """The finding in a word: the state of the result, ``failed`` if the check cannot run, else ``pending``."""
        if is_failed(self.instance):
            return "failed"
        if self.result is None or shown_state(self.instance) is not CheckState.ACTIVE:
            return "pending"
        return self.result.state.value

    @property
    def subject(self) -> str:
        """The check and what it checks."""
        key = self.instance.key
        chosen = "".join(f", {name} {value}" for name, value in key.attributes)
        return f"{key.check} of {key.path} {key.number}{chosen}"

    @property
    def host(self) -> str:
        """The name of the host."""
        return host_name(self.instance)

    @property
    def detail(self) -> str:
        """The output of the check; the reason of a failure; or what a check without a result waits for."""
        configuration = shown_configuration(self.instance)
        if self.word == "failed" and configuration is not None:
            return f"{configuration.state.value}: {configuration.reason}".removesuffix(": ")
        if self.word == "pending" or self.result is None:
            state = shown_state(self.instance)
            return "no result yet" if state is CheckState.ACTIVE else state.value
        return self.result.output.partition("\n")[0]

    def to_json(self) -> dict[str, Value]:
        """Return the finding as one of the instances that ``checks instances -o json`` prints."""
        return overview_to_json(self.instance, self.result)


def known_results(
    instances: Mapping[str, CheckInstance],
    results: Mapping[str, CheckResult],
    contacts: Mapping[str, SystemContact],
    now: float,
) -> dict[str, CheckResult]:
    """Return the results of instances, all by identifier; those of a silent monitoring system are unknown.

    An instance that is not deployed any more has no result, and a result of another configuration than the current
    one does not count. ``contacts`` are keyed by monitoring system.
    """
    systems = {found.system for found in instances.values()}
    silent = {system for system in systems if is_stale(contacts.get(system), now)}
    return {
        instance_id: _unknown(results[instance_id]) if found.system in silent else results[instance_id]
        for instance_id, found in instances.items()
        if instance_id in results and shown_state(found) not in _GONE and _is_current(results[instance_id], found)
    }


def check_findings(
    instances: Mapping[str, CheckInstance], results: Mapping[str, CheckResult]
) -> tuple[CheckFinding, ...]:
    """Return the findings of instances that are wanted, the worst first; ``results`` are those that are known."""
    findings = (
        CheckFinding(found, results.get(instance_id))
        for instance_id, found in instances.items()
        if not found.deleted
    )
    return tuple(sorted(findings, key=lambda finding: (FINDING_WORDS.index(finding.word), finding.subject)))


def _is_current(result: CheckResult, instance: CheckInstance) -> bool:
    configuration = shown_configuration(instance)
    return configuration is None or result.is_of(configuration.config_id)


def _unknown(result: CheckResult) -> CheckResult:
    return replace(result, state=ResultState.UNKNOWN, output="its monitoring system reports no results any more")

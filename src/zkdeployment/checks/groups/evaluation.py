"""The states of check groups at one moment, from the results of check instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.checks.findings import CheckFinding
from zkdeployment.checks.groups.state import CheckGroupState
from zkdeployment.model.tree import is_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.checks.monitoring_system import CheckResult
    from zkdeployment.documents.checks.groups import CheckGroup

_OK, _PENDING = "ok", "pending"


def group_states(
    groups: Iterable[CheckGroup], instances: Iterable[CheckInstance], results: Mapping[str, CheckResult]
) -> tuple[CheckGroupState, ...]:
    """Return the states of groups by name; ``results`` are those that are known, by identifier of the instance."""
    wanted = [CheckFinding(found, results.get(found.id)) for found in instances if not found.deleted]
    return tuple(_state(group, wanted) for group in sorted(groups, key=lambda group: group.name))


def belongs_to(group: CheckGroup, path: str, check: str) -> bool:
    """Whether the results of a check of the service at a path count for a group."""
    return is_below(path, group.path) and (not group.checks or check in group.checks)


def _state(group: CheckGroup, findings: Iterable[CheckFinding]) -> CheckGroupState:
    words: dict[str, set[str]] = {}
    for finding in findings:
        key = finding.instance.key
        if belongs_to(group, key.path, key.check):
            words.setdefault(f"{key.path} {key.number} on {finding.host}", set()).add(finding.word)
    pending = tuple(
        sorted(name for name, found in words.items() if found <= {_OK, _PENDING} and _PENDING in found)
    )
    failing = tuple(sorted(name for name, found in words.items() if not found <= {_OK, _PENDING}))
    return CheckGroupState(group, len(words) - len(pending) - len(failing), pending, failing)

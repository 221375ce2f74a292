"""The explanation that ``zkdeployment why`` prints: a cause, a sentence, facts, advice and checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.checks.findings import CheckFinding
    from zkdeployment.model.stop import FailureOutput
    from zkdeployment.model.tree import Value


class Cause(Enum):
    """The root cause for which a host is not at the cluster version."""

    CONVERGED = "converged"
    UNPUBLISHED = "unpublished"  # no revision was ever published
    UNKNOWN = "unknown"  # no host of this id or name is known
    ABSENT = "absent"  # the host's agent is not registered
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"
    IMPORTING = "importing"  # a publication is under way, or was interrupted
    LOCK = "lock"  # the host waits for a lock
    WORKING = "working"
    IDLE = "idle"  # the host is registered and has not begun
    ORDER = "order"  # the host waits for other hosts to deploy a service
    ROLLOUT = "rollout"  # the rollout has not reached the host


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cause, one sentence about it, facts that support the sentence, and what the operator can do.

    ``output`` is the end of the output of the script with which the host failed, if it is kept. ``checks`` holds
    the findings of the checks of the host's services.
    """

    cause: Cause
    sentence: str
    facts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    output: FailureOutput | None = None
    checks: tuple[CheckFinding, ...] = ()

    def with_output(self, output: FailureOutput | None) -> Explanation:
        """Return the explanation of a failure with the output of its script."""
        return replace(self, output=output) if self.cause is Cause.FAILED else self

    def with_facts(self, facts: Iterable[str]) -> Explanation:
        """Return the explanation with further facts."""
        return replace(self, facts=(*self.facts, *facts))

    def with_checks(self, checks: tuple[CheckFinding, ...]) -> Explanation:
        """Return the explanation with the findings of the checks of the host's services."""
        return replace(self, checks=checks)

    def to_json(self) -> dict[str, Value]:
        """Return the explanation as ``-o json`` prints it."""
        return {
            "cause": self.cause.value,
            "answer": self.sentence,
            "facts": [*self.facts],
            "advice": [*self.advice],
            "output": None if self.output is None else self.output.properties(),
            "checks": [finding.to_json() for finding in self.checks],
        }

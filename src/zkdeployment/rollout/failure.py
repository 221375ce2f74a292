"""A failed deployment of one host, as the host reports it to the fleet or to a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.deployment import DeploymentFailure
from zkdeployment.model.stop import Stop
from zkdeployment.rollout.permission import Phase

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that stops the fleet, with ``part`` fails the host in a rollout, with ``group`` stops that group.

    ``failed`` is the failure for programs. ``part`` is the rollout's id and the phase.
    """

    stop: Stop
    failed: DeploymentFailure
    part: tuple[str, Phase] | None = None
    group: str | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the failure as JSON, in which a host stores it until the failure is reported."""
        part = {} if self.part is None else {"rollout": self.part[0], "phase": self.part[1].value}
        group = {} if self.group is None else {"group": self.group}
        return {"stop": self.stop.properties(), **part, "failed": self.failed.properties(), **group}

    @classmethod
    def from_json(cls, value: object) -> Failure:
        """Return the failure that ``to_json`` encoded; raises ``ValueError`` for anything else."""
        match value:
            case {"stop": dict(stop), "failed": dict(failed), **others}:
                group = others.get("group")
                return cls(
                    Stop.from_properties(stop),
                    _deployment_failure(failed),
                    _part(others),
                    group if isinstance(group, str) else None,
                )
        raise ValueError("not a failure")


def _deployment_failure(value: object) -> DeploymentFailure:
    failed = DeploymentFailure.from_properties(value)
    if failed is None:
        raise ValueError("not a failure of a deployment")
    return failed


def _part(value: object) -> tuple[str, Phase] | None:
    match value:
        case {"rollout": str(rollout), "phase": str(phase)}:
            return rollout, Phase(phase)
    return None

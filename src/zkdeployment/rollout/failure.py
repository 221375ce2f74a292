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
    """A failure that stops the fleet or, with ``part``, fails the host in a rollout.

    ``part`` is the rollout's id and the phase. ``failed`` is the failure for programs; agents of old releases did
    not keep it.
    """

    stop: Stop
    part: tuple[str, Phase] | None = None
    failed: DeploymentFailure | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the failure as JSON, in which a host stores it until the failure is reported."""
        part = {} if self.part is None else {"rollout": self.part[0], "phase": self.part[1].value}
        failed = {} if self.failed is None else {"failed": self.failed.properties()}
        return {"stop": self.stop.properties(), **part, **failed}

    @classmethod
    def from_json(cls, value: object) -> Failure:
        """Return the failure that ``to_json`` encoded; raises ``ValueError`` for anything else."""
        match value:
            case {"stop": dict(stop), "rollout": str(rollout), "phase": str(phase), **others}:
                failed = DeploymentFailure.from_properties(others.get("failed"))
                return cls(Stop.from_properties(stop), (rollout, Phase(phase)), failed)
            case {"stop": dict(stop), **others}:
                return cls(
                    Stop.from_properties(stop), failed=DeploymentFailure.from_properties(others.get("failed"))
                )
            case _:
                raise ValueError("not a failure")

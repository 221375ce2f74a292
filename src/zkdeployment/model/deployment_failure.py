"""Structured failures: what a host failed at, for programs. The error for people is a text beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.deployment import Assignment, Deployment
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class DeploymentFailure:
    """The failure of a host: the publication, the step, and the deployment or the packages that failed.

    ``sequence`` is that of the publication, 0 for a version that was set by hand. ``path`` is that of the service
    or of the role's controller; ``number`` is ``None`` if no instance is concerned.
    """

    sequence: int
    step: str
    path: str | None = None
    number: int | None = None
    packages: frozenset[str] = frozenset()

    def concerns(self, deployment: Deployment, assignment: Assignment) -> bool:
        """Whether the host failed at a deployment, or at its packages."""
        if self.path is None:
            return bool(self.packages & {assignment.package, *assignment.patches})
        return self.path == deployment.path and self.number in {None, deployment.number}

    def properties(self) -> dict[str, Value]:
        """Return the failure as it is stored in ZooKeeper and on the host."""
        return {
            "sequence": self.sequence,
            "step": self.step,
            "path": self.path,
            "n": self.number,
            "packages": [*sorted(self.packages)],
        }

    @classmethod
    def from_properties(cls, value: object) -> DeploymentFailure | None:
        """Return the failure that ``properties`` encoded; ``None`` for anything else."""
        match value:
            case {
                "sequence": int(sequence),
                "step": str(step),
                "path": str() | None as path,
                "n": int() | None as number,
                "packages": list(packages),
            }:
                return cls(sequence, step, path, number, frozenset(map(str, packages)))
            case _:
                return None

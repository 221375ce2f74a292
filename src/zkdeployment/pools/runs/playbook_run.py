"""A run of a playbook for nodes of a pool, with its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.pools.tenant_session import LATEST

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The most characters of an output that are kept: the last ones.
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class PlaybookRun:
    """A run that has ended. ``begun`` is in seconds since the epoch; ``nodes`` are the ids of the nodes."""

    id: int
    pool: str
    playbook: str
    nodes: tuple[int, ...]
    begun: float
    seconds: float
    succeeded: bool
    output: str

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON, with the end of its output."""
        return {
            "id": self.id,
            "pool": self.pool,
            "playbook": self.playbook,
            "nodes": [*self.nodes],
            "begun": self.begun,
            "seconds": self.seconds,
            "succeeded": self.succeeded,
            "output": self.output[-_LONGEST:],
        }


def run_from_json(value: Mapping[str, Any]) -> PlaybookRun:
    """Return the run that ``to_json`` encoded; raises ``ValueError`` for anything else."""
    match value:
        case {
            "id": int(number),
            "pool": str(pool),
            "playbook": str(playbook),
            "nodes": list(nodes),
            "begun": float() | int() as begun,
            "seconds": float() | int() as seconds,
            "succeeded": bool(succeeded),
            "output": str(output),
        } if 0 <= begun <= LATEST and 0 <= seconds <= LATEST:
            numbers = tuple(node for node in nodes if isinstance(node, int))
            return PlaybookRun(number, pool, playbook, numbers, begun, seconds, succeeded, output[-_LONGEST:])
    raise ValueError("expected a run of a playbook")

"""A rollout whose coordinator is the test: it lets hosts in and reads what they report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths

if TYPE_CHECKING:
    from support.agents import Fleet


class PlayedRollout:
    """The rollout of a publication of ``revision`` by a strategy."""

    def __init__(self, fleet: Fleet, revision: str, *, sequence: int = 1) -> None:
        self._client = fleet.client
        self._sequence = sequence
        self.id = ""
        said = {"version": None, "sequence": sequence, "strategy": "played", "ordered": revision}
        self._put(paths.TARGETS, said)
        fleet.set_version(revision)

    def begin(self, attempt: int = 1) -> None:
        """Begin an attempt: nobody may do anything yet."""
        self.id = f"{self._sequence}-{attempt}"
        for name in ("grants", "reports", "acts"):
            self._client.ensure_path(f"{paths.rollout_path(self.id)}/{name}")
        self._put(paths.ROLLOUTS, {"current": self.id})

    def grant(self, phase: str, host: str = "h1") -> None:
        """Let a host into a phase."""
        self._put(paths.grant_path(self.id, host), {"phase": phase, "group": "some", "reason": ""})

    def withdraw(self, reason: str, host: str = "h1") -> None:
        """Take back what a host was let into."""
        self._put(paths.grant_path(self.id, host), {"phase": None, "group": "some", "reason": reason})

    def end(self) -> None:
        """End it in a way that stops the fleet; the grants stand yet."""
        self._put(paths.ROLLOUTS, {"current": self.id, "over": True})

    def reports(self) -> dict[str, str | None]:
        """Return what was reported: ``PHASE:HOST`` and the error, if any."""
        place = f"{paths.rollout_path(self.id)}/reports"
        return {
            name: json.loads(self._client.get(f"{place}/{name}")[0])["error"]
            for name in sorted(self._client.get_children(place))
        }

    def _put(self, path: str, value: object) -> None:
        self._client.ensure_path(path)
        self._client.set(path, json.dumps(value).encode())

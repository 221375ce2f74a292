"""A rollout in ZooKeeper in which the test acts as the coordinator: it writes grants and reads reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from support.rollout_states import advanced_rollout, begun_rollout, ended_rollout
from zkdeployment.strategies.store.records import encode_state
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from support.agents import Fleet


class ScriptedRollout:
    """A rollout of ``revision``, whose records the test writes."""

    def __init__(self, fleet: Fleet, revision: str, *, sequence: int = 1) -> None:
        self._client = fleet.client
        self._sequence = sequence
        self.id = ""
        publication = {"version": None, "sequence": sequence, "strategy": "played", "ordered": revision}
        self._put(paths.TARGETS, publication)
        fleet.set_version(revision)

    def begin(self, attempt: int = 1) -> None:
        """Begin an attempt without grants."""
        self.id = f"{self._sequence}-{attempt}"
        for name in ("grants", "reports", "acts"):
            self._client.ensure_path(f"{paths.rollout_path(self.id)}/{name}")
        self._put(paths.ROLLOUTS, {"current": self.id})

    def grant(self, phase: str, host: str = "h1") -> None:
        """Grant a phase to a host."""
        self._put(paths.grant_path(self.id, host), {"phase": phase, "group": "some", "reason": ""})

    def withdraw(self, reason: str, host: str = "h1") -> None:
        """Withdraw a host's grant."""
        self._put(paths.grant_path(self.id, host), {"phase": None, "group": "some", "reason": reason})

    def end(self) -> None:
        """End the rollout as a failure would, without withdrawing the grants."""
        self._put(paths.ROLLOUTS, {"current": self.id, "over": True})

    def complete(self) -> None:
        """End the rollout as one whose groups all succeeded."""
        state = ended_rollout(advanced_rollout(begun_rollout()))
        self._client.set(paths.rollout_path(self.id), encode_state(replace(state, sequence=self._sequence)))

    def reports(self) -> dict[str, str | None]:
        """Return the reported error, or ``None`` for success, by ``PHASE:HOST``."""
        place = f"{paths.rollout_path(self.id)}/reports"
        return {
            name: json.loads(self._client.get(f"{place}/{name}")[0])["error"]
            for name in sorted(self._client.get_children(place))
        }

    def _put(self, path: str, value: object) -> None:
        self._client.ensure_path(path)
        self._client.set(path, json.dumps(value).encode())

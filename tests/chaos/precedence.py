"""Checks the order between services: which hosts wait before a deployment, and which keep a service for longer.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.observations import DEPLOY, UNDEPLOY

if TYPE_CHECKING:
    from chaos.observations import PublicationSeen, RegistrationsSeen, ScriptBegan, ScriptCall
    from chaos.pushed import PushedTree


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """A sentence that is a finding if a host was registered all the time since a transaction."""

    began: ScriptBegan
    since: int
    sentence: str


class PrecedenceChecks:
    """Checks the scripts of each publication that was seen.

    A host is awaited for certain if it was registered before the order was written, and is still when it begins
    to deploy. A revision that was published twice, with a change for hosts, is not checked.
    """

    def __init__(self) -> None:
        self._published: dict[str, PublicationSeen | None] = {}
        self._begun: dict[str, list[ScriptBegan]] = {}
        self._suspicions: list[_Suspicion] = []

    def published(self, seen: PublicationSeen) -> None:
        """Note the order of a publication."""
        known = self._published.setdefault(seen.revision, seen)
        if known is not None and known.since != seen.since:
            self._published[seen.revision] = None

    def attacked(self) -> None:
        """Forget everything: after an attack there is no guaranteed order."""
        self._published = dict.fromkeys(self._published)
        self._suspicions.clear()

    def began(self, began: ScriptBegan, tree: PushedTree) -> None:
        """Note a script, and the earlier scripts that should have waited for it."""
        call = began.call
        seen = self._published.get(call.revision)
        earlier = self._begun.setdefault(call.revision, [])
        is_again = any((other.call.host, other.call.path) == (call.host, call.path) for other in earlier)
        if seen is not None and seen.order and call.action == DEPLOY and not is_again:
            self._suspicions += [
                _Suspicion(began, seen.ordered, f"{call} begins after {other.call}, which has to wait for it")
                for other in earlier
                if other.time > seen.time and _waits(other.call, call, seen, tree)
            ]
        earlier.append(began)

    def registered(self, seen: RegistrationsSeen) -> list[str]:
        """Return the findings that the registrations confirm."""
        ripe = [suspicion for suspicion in self._suspicions if suspicion.began.time < seen.since]
        self._suspicions = [suspicion for suspicion in self._suspicions if suspicion not in ripe]
        return [
            suspicion.sentence
            for suspicion in ripe
            if seen.created.get(suspicion.began.call.host, suspicion.since) < suspicion.since
        ]


def _waits(other: ScriptCall, call: ScriptCall, seen: PublicationSeen, tree: PushedTree) -> bool:
    """Whether a script had to wait for the deployment ``call`` by another host."""
    entry = seen.order.get(call.path)
    if entry is None or other.host == call.host:
        return False
    if other.action == UNDEPLOY:
        return other.path == call.path and tree.undeploys_last(call.path) and call.host in entry.gaining
    assignment = tree.assignment(other.host, other.path)
    return assignment is not None and call.path in assignment.after and call.host in entry.hosts

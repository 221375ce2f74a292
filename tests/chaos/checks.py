"""The invariants of a fleet, checked on what is seen of it from outside. Pure: no clock, no files, no ZooKeeper.

They are those of ``simulation.checks``, as far as they can be seen without being inside: never two scripts under
one service's lock; nothing starts after a stop; a recorded version implies the markers and packages of it; no
host does what its revision's tree does not want; a recorded stop stops the fleet; every failure is reported.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Protocol

from chaos.claims import missing_of
from chaos.observations import (
    AgentEnded,
    AgentThawed,
    ClusterSeen,
    ReportsSeen,
    ScriptBegan,
    ScriptEnded,
    ScriptFailed,
    UnexpectedErrorLogged,
    VersionClaimed,
)

if TYPE_CHECKING:
    from chaos.observations import Observation, ScriptCall
    from zkdeployment.model.deployment import DesiredState

#: Seconds that an agent may take from its last look at the cluster version to the start of a script: it may lose
#: its connection right after the look, and trusts its session for a while.
GRACE = 10.0


class Trees(Protocol):
    """The trees that were pushed."""

    def wanted(self, revision: str, host: str) -> DesiredState | None:
        """Return what a host is to run at a revision; ``None`` if no such revision was pushed."""

    def has_revision(self, revision: str) -> bool:
        """Whether a revision was pushed."""

    def has_service(self, revision: str, path: str) -> bool:
        """Whether any host is to run a service at a revision."""


class Checks:
    """The checks of one fleet, to which observations are given in the order in which they were made.

    ``findings`` are sentences; ``scripts`` counts the scripts that began.
    """

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self.findings: list[str] = []
        self.scripts = 0
        self._running: set[ScriptCall] = set()
        self._stop: ClusterSeen | None = None
        self._begun: list[ScriptBegan] = []
        self._thawed: dict[str, float] = {}
        self._unreported: dict[tuple[str, str], ScriptFailed] = {}
        #: Scripts whose agent has ended: nobody hears of their exit status.
        self._orphaned: set[ScriptCall] = set()

    @singledispatchmethod
    def see(self, observation: Observation) -> None:
        """Check an observation together with all earlier ones."""
        raise TypeError(f"not an observation: {observation}")

    def check_end(self) -> None:
        """Check what must have happened when the faults have ended and the fleet has converged."""
        self.findings += [f"never reported: {host}: {message}" for host, message in self._unreported]
        self.findings += [f"converged, but {call} still runs" for call in self._running]

    # Scripts

    @see.register
    def _(self, began: ScriptBegan) -> None:
        self.scripts += 1
        self._begun.append(began)
        self._check_wanted(began.call)
        lock = self._lock_of(began.call)
        if lock is not None:
            self.findings += [
                f"two scripts under the lock of {lock}: {other} runs, {began.call} begins"
                for other in self._running
                if self._lock_of(other) == lock
            ]
        self._running.add(began.call)

    @see.register
    def _(self, ended: ScriptEnded) -> None:
        self._running.discard(ended.call)
        self._orphaned.discard(ended.call)

    @see.register
    def _(self, failed: ScriptFailed) -> None:
        if failed.call not in self._orphaned:
            self._unreported[failed.call.host, failed.message] = failed

    def _check_wanted(self, call: ScriptCall) -> None:
        wanted = self._trees.wanted(call.revision, call.host)
        if wanted is None:
            self.findings.append(f"{call} runs for a revision that is no valid tree of the repository")
            return
        assignment = next((entry for entry in wanted.assignments if entry.path == call.path), None)
        is_wanted = assignment is not None and call.number < assignment.n
        if call.undeploys == is_wanted:
            self.findings.append(
                f"{call} runs, but the tree {'wants' if is_wanted else 'does not want'} this instance"
            )
        elif assignment is not None and not call.undeploys and call.package != assignment.version:
            self.findings.append(f"{call} runs with version {call.package}, but the tree has {assignment.version}")

    def _lock_of(self, call: ScriptCall) -> str | None:
        """Return the lock under which a script has to run; ``None`` for the end of a service that is gone."""
        return None if call.undeploys and not self._trees.has_service(call.revision, call.path) else call.path

    # The cluster

    @see.register
    def _(self, seen: ClusterSeen) -> None:
        if self._stop is not None and self._stop.written == seen.written:
            for began in self._begun:
                since = max(self._stop.time, self._thawed.get(began.call.host, 0.0))
                if since + GRACE < began.time <= seen.since:
                    self.findings.append(f"{began.call} began {began.time - self._stop.time:.1f} s after the stop")
        else:
            self._stop = seen if seen.version is None else None
        self._begun = [began for began in self._begun if began.time > seen.since]
        if seen.stops and seen.version is not None and self._trees.has_revision(seen.version):
            self.findings.append(
                f"a stop is on record ({', '.join(seen.stops)}), but the fleet runs at {seen.version}"
            )

    @see.register
    def _(self, seen: ReportsSeen) -> None:
        for host, message in list(self._unreported):
            if any(host == reporter and message in text for reporter, text in seen.reports):
                del self._unreported[host, message]

    # Hosts

    @see.register
    def _(self, claim: VersionClaimed) -> None:
        wanted = self._trees.wanted(claim.revision, claim.host)
        problems = (
            ["that is no valid tree of the repository"]
            if wanted is None
            else missing_of(wanted, claim.marked, claim.packages)
        )
        if problems:
            self.findings.append(
                f"{claim.host} says that it has deployed {claim.revision[:12]}, but {'; '.join(problems)}"
            )

    @see.register
    def _(self, ended: AgentEnded) -> None:
        """Forget what an agent could not hear or keep before it was killed: its successor tries again."""
        self._unreported = {
            (host, message): failed
            for (host, message), failed in self._unreported.items()
            if host != ended.host or message in ended.kept
        }
        self._orphaned |= {call for call in self._running if call.host == ended.host}

    @see.register
    def _(self, thawed: AgentThawed) -> None:
        self._thawed[thawed.host] = thawed.time

    @see.register
    def _(self, logged: UnexpectedErrorLogged) -> None:
        self.findings.append(f"{logged.daemon} does not handle an error: {logged.error}")

"""The invariants of a fleet, checked on observations from outside. Pure: no clock, no files, no ZooKeeper.

Never two scripts under the lock of a service or a role; nothing starts after a stop; a recorded stop stops the
fleet; a recorded version implies its markers and packages; no script does or reads anything that the tree of its
revision does not want, after any writes of an attacker; publications are whole; deployments run in the bracket of
their controller, and in the order between services; every failure is reported.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING

from chaos.brackets import BracketChecks
from chaos.claims import missing_of
from chaos.observations import (
    DEPLOY,
    ENDING,
    UNDEPLOY,
    AgentEnded,
    AgentThawed,
    Attacked,
    ClusterSeen,
    PublicationSeen,
    RegistrationsSeen,
    ReportsSeen,
    ScriptBegan,
    ScriptEnded,
    ScriptFailed,
    UnexpectedErrorLogged,
    VersionClaimed,
)
from chaos.precedence import PrecedenceChecks
from chaos.systems import lacks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.observations import Observation, ScriptCall
    from chaos.pushed import PushedTree

#: Seconds that an agent may take from its last look at the cluster version to the start of a script: it may lose
#: its connection right after the look, and trusts its session for a while.
GRACE = 10.0

_INVALID = "that is no valid tree of the repository"


class Checks:
    """The checks of one fleet, which get observations in the order of their time.

    ``tree`` returns the valid tree of a revision that was pushed. ``findings`` are sentences; ``scripts`` counts
    the scripts that began, and ``publications`` the publications that were observed as a whole.
    """

    def __init__(self, tree: Callable[[str], PushedTree | None]) -> None:
        self._tree = tree
        self.findings: list[str] = []
        self.scripts = 0
        self.publications = 0
        self._brackets = BracketChecks()
        self._precedence = PrecedenceChecks()
        self._running: set[ScriptCall] = set()
        self._stop: ClusterSeen | None = None
        self._begun: list[ScriptBegan] = []
        self._thawed: dict[str, float] = {}
        self._unreported: dict[tuple[str, str], ScriptFailed] = {}
        #: Scripts whose agent has ended: nobody hears of their exit status.
        self._orphaned: set[ScriptCall] = set()
        self._is_attacked = False

    @singledispatchmethod
    def see(self, observation: Observation) -> None:
        """Check an observation together with all earlier ones."""
        raise TypeError(f"not an observation: {observation}")

    def check_end(self) -> None:
        """Check the state after the end of the faults and the convergence of the fleet.

        The next publication has to be whole, also after an attack.
        """
        self.findings += [f"never reported: {host}: {message}" for host, message in self._unreported]
        self.findings += [f"converged, but {call} still runs" for call in self._running]
        self._is_attacked = False

    # Scripts

    @see.register
    def _(self, began: ScriptBegan) -> None:
        self.scripts += 1
        self._begun.append(began)
        call, tree = began.call, self._tree(began.call.revision)
        if tree is None:
            self.findings.append(f"{call} runs for a revision {_INVALID}")
            return
        self.findings += _unwanted(call, tree)
        self.findings += self._brackets.began(call, is_controlled=_is_controlled(call, tree))
        self._precedence.began(began, tree)
        lock = lock_of(call, tree)
        if lock is not None:
            self.findings += [
                f"two scripts under the lock of {lock}: {other} runs, {call} begins"
                for other in self._running
                if (other_tree := self._tree(other.revision)) is not None and lock_of(other, other_tree) == lock
            ]
        self._running.add(call)

    @see.register
    def _(self, ended: ScriptEnded) -> None:
        self._running.discard(ended.call)
        self._orphaned.discard(ended.call)
        self._brackets.ended(ended)

    @see.register
    def _(self, failed: ScriptFailed) -> None:
        self._brackets.failed(failed.call)
        if failed.call not in self._orphaned:
            self._unreported[failed.call.host, failed.message] = failed

    # The cluster

    @see.register
    def _(self, seen: ClusterSeen) -> None:
        if self._stop is not None and self._stop.written == seen.written:
            for began in self._begun:
                since = max(self._stop.time, self._thawed.get(began.call.host, 0.0))
                is_late = since + GRACE < began.time <= seen.since
                if (
                    is_late
                    and not ignores_stops(began.call, self._tree(began.call.revision))
                    and not _is_retried(began.call, seen)
                ):
                    self.findings.append(f"{began.call} began {began.time - self._stop.time:.1f} s after the stop")
        else:
            self._stop = seen if seen.version is None else None
        self._begun = [began for began in self._begun if began.time > seen.since]
        if seen.stops and seen.version is not None and self._tree(seen.version) is not None:
            self.findings.append(
                f"a stop is on record ({', '.join(seen.stops)}), but the fleet runs at {seen.version}"
            )
        if seen.retry is not None and not self._is_attacked:
            self.findings += [f"a retry of {seen.retry[0]} {problem}" for problem in _broken_retry(seen)]

    @see.register
    def _(self, seen: ReportsSeen) -> None:
        for host, message in list(self._unreported):
            if any(host == reporter and message in text for reporter, text in seen.reports):
                del self._unreported[host, message]

    @see.register
    def _(self, seen: PublicationSeen) -> None:
        tree = self._tree(seen.revision)
        if tree is None or self._is_attacked:
            return  # a fleet without a tree yet, or what an attacker made of one
        self.publications += 1
        if (seen.targets, seen.texts) != (tree.targets, tree.texts):
            expected, found = f"{tree.targets}, {tree.texts}", f"{seen.targets}, {seen.texts}"
            self.findings.append(f"half a publication of {seen.revision}: expected {expected}, found {found}")
        self._precedence.published(seen)

    @see.register
    def _(self, seen: RegistrationsSeen) -> None:
        self.findings += self._precedence.registered(seen)

    @see.register
    def _(self, _: Attacked) -> None:
        self._is_attacked = True
        self._precedence.attacked()

    # Hosts

    @see.register
    def _(self, claim: VersionClaimed) -> None:
        tree = self._tree(claim.revision)
        problems = [_INVALID]
        if tree is not None:
            wanted = tree.hosts[claim.host]
            problems = missing_of(wanted, claim.marked, claim.packages) + lacks_of(wanted.system, claim.system)
            problems += self._brackets.claimed(claim.host, is_controlled=wanted.controller is not None)
        if problems:
            self.findings.append(
                f"{claim.host} says that it has deployed {claim.revision[:12]}, but {'; '.join(problems)}"
            )

    @see.register
    def _(self, ended: AgentEnded) -> None:
        """Forget the failures that a killed agent could not report or keep: its successor tries again."""
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


def ignores_stops(call: ScriptCall, tree: PushedTree | None) -> bool:
    """Whether a script belongs to a bracket: a stop does not interrupt the work under a role's lock."""
    return tree is not None and _is_controlled(call, tree)


def _is_retried(call: ScriptCall, seen: ClusterSeen) -> bool:
    """Whether a retry permits a script although the fleet is stopped."""
    return seen.retry == (call.host, call.revision)


def _broken_retry(seen: ClusterSeen) -> list[str]:
    """Return how a retry contradicts the state of the fleet: a retry needs the stop, and keeps it."""
    if seen.version is not None:
        return [f"is in force while the fleet runs at {seen.version}"]
    return ["has cleared the stops"] if seen.stops == () else []


def _unwanted(call: ScriptCall, tree: PushedTree) -> list[str]:
    """Return how a script contradicts the tree of its revision."""
    if call.is_bracket:
        controller = tree.hosts[call.host].controller
        if controller is None:  # the tree took the controller away while the bracket was open
            return [] if call.action == ENDING else [f"{call} runs, but the tree has no such controller"]
        return _differences(call, "version", call.package, controller.version)
    assignment = tree.assignment(call.host, call.path)
    is_wanted = assignment is not None and call.number < assignment.n
    if (call.action == DEPLOY) != is_wanted:
        return [f"{call} runs, but the tree {'wants' if is_wanted else 'does not want'} this instance"]
    if assignment is None or call.action == UNDEPLOY:
        return []
    return [
        *_differences(call, "version", call.package, assignment.version),
        *_differences(call, "text", call.text, tree.texts[call.path]),
    ]


def _differences(call: ScriptCall, name: str, found: str, expected: str | None) -> list[str]:
    return [] if found == expected else [f"{call} runs with {name} {found}, but the tree has {expected}"]


def _is_controlled(call: ScriptCall, tree: PushedTree) -> bool:
    return call.is_bracket or tree.hosts[call.host].controller is not None


def lock_of(call: ScriptCall, tree: PushedTree) -> str | None:
    """Return the lock under which a script has to run; ``None`` if it may need no lock.

    The end of a removed service needs no lock. A host with a controller ends a service under the lock of its role,
    or under the lock of the service if other hosts gain it.
    """
    if call.action == UNDEPLOY and not tree.has_service(call.path):
        return None
    if not _is_controlled(call, tree):
        return call.path
    controller = tree.hosts[call.host].controller
    is_last = call.action == UNDEPLOY and tree.undeploys_last(call.path)
    return None if is_last or controller is None else controller.path

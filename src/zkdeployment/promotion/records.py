"""The values of a promotion: what branches and services report, the standing of each fleet, and the history.

A fleet's service reports a ``FleetReport``, the git server a ``BranchTip`` for each branch. The promoter combines
them to the ``FleetStanding`` that operators see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, ClassVar

from zkdeployment.base.act import NO_REASON, Act
from zkdeployment.base.cluster import short
from zkdeployment.base.durations import utc_text
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.records import APART, Key, Record
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.records import CommitSummary

if TYPE_CHECKING:
    from zkdeployment.strategies.state import RolloutState

#: The trailer of a commit that rolls back a promotion: its value is the revision from which the commit leads away.
PROMOTION_ROLLBACK_TRAILER = "Rolls-Back-Promotion"


class FleetState(Enum):
    """The state of a fleet, from the best to the worst; only the promoter finds the last two."""

    CONVERGED = "converged"  # every host has the published revision
    ROLLING_OUT = "rolling out"  # hosts deploy the published revision, or the tip is not published yet
    HELD = "held"  # by an operator of the fleet
    STOPPED = "stopped"  # a deployment failed, or an operator of the fleet stopped it
    REFUSED = "refused"  # the fleet's syncer refuses the tip of the branch
    UNREACHABLE = "unreachable"  # the fleet's service gives no valid answer
    DIVERGED = "diverged"  # the branch has a commit that is not in the main branch


@dataclass(frozen=True, slots=True)
class FleetReport(Record):
    """The answer of a fleet's service, reduced to what a promotion needs.

    ``revision`` is the commit that was published last. ``hosts`` counts the hosts that want it, ``converged``
    those that have it. ``since`` is when the state began, ``read_at`` when the service confirmed the report, in
    seconds since the epoch. ``by`` is who stopped or holds the fleet, ``problem`` one sentence on why the fleet
    does not converge. ``refused`` is the commit that the fleet's syncer refuses. An unreachable fleet has only a
    ``problem``.
    """

    state: FleetState
    revision: str | None = None
    hosts: int = 0
    converged: int = 0
    since: float | None = None
    by: str = ""
    problem: str = ""
    refused: str | None = None
    read_at: Annotated[float, APART] = 0.0


@dataclass(frozen=True, slots=True)
class DryRun(Record):
    """The answer of a fleet's service to the question whether its syncer would accept a commit.

    ``refusal`` is the reason for which the syncer refuses the commit; empty if it accepts the commit. ``problem``
    is why there is no answer: then the question is asked again.
    """

    refusal: str = ""
    problem: str = ""

    @property
    def accepts(self) -> bool:
        """Whether the syncer accepts the commit."""
        return not self.refusal and not self.problem


@dataclass(frozen=True, slots=True)
class BranchTip:
    """The tip of a branch at the git server; ``commit`` is ``None`` if there is no such branch.

    ``in_main``: the main branch contains the tip. ``behind`` is the number of commits of the main branch that the
    branch does not contain.
    """

    commit: str | None = None
    in_main: bool = False
    behind: int = 0


@dataclass(frozen=True, slots=True)
class BranchMove:
    """The order to move a branch forward from ``old`` to ``new``; without ``old`` the branch is created."""

    branch: str
    old: str | None
    new: str


class MoveOutcome(Enum):
    """The outcome of the push of one branch."""

    MOVED = "moved"
    RACED = "raced"  # the branch is no longer where it was expected, or the server is disturbed: read it again
    REFUSED = "refused"  # by the git server, with its words


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The result of the push of one branch; ``words`` are those of the git server."""

    outcome: MoveOutcome
    words: str = ""


@dataclass(frozen=True, slots=True)
class Pin(Record):
    """The ``revision`` beyond which nothing is promoted to a fleet, by the act of an operator.

    The pin ends at ``until``, in seconds since the epoch, or else when an operator unpins the fleet.
    """

    is_lenient: ClassVar[bool] = True
    act: Annotated[Act, Key(flat=True)]
    revision: str = ""
    until: float | None = None

    def __str__(self) -> str:
        end = "" if self.until is None else f" until {utc_text(self.until)}"
        return f"pinned to {short(self.revision)}{end} by {self.act.by}: {self.act.reason or NO_REASON}"

    def is_in_force(self, now: float) -> bool:
        """Whether the fleet is pinned at ``now``, in seconds since the epoch."""
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class FleetStanding(Record):
    """The standing of a fleet under promotion, as the promoter last recorded it.

    ``branch`` is the branch that the fleet follows, ``service`` the URL of its service. ``tip`` is the commit of
    the branch at the git server, ``revision`` the one that the fleet published.
    ``since`` is when the state began and ``seen`` when the service last answered, in seconds since the epoch.
    ``by`` is who holds or stopped the fleet. ``behind`` is the number of commits behind the main branch.
    ``withheld`` is the act of an operator by which nothing is promoted there, ``pin`` the revision beyond which
    nothing is promoted.
    """

    is_lenient: ClassVar[bool] = True
    name: str
    state: FleetState = FleetState.UNREACHABLE
    tip: str | None = None
    revision: str | None = None
    hosts: int = 0
    converged: int = 0
    since: float | None = None
    by: str = ""
    problem: str = ""
    behind: int = 0
    seen: float | None = None
    withheld: Act | None = None
    pin: Pin | None = None
    branch: str = ""
    service: str = ""


@dataclass(frozen=True, slots=True)
class PromotionEntry(Record):
    """A promotion in the history; ``reached`` is when each fleet had converged at the revision.

    ``result`` is the value of a ``RolloutProgressState``. ``rolls_back`` is the revision from which a rollback
    leads away. ``chosen`` is who chose the revision and why, empty for the tip of the main branch. Times are in
    seconds since the epoch.
    """

    is_lenient: ClassVar[bool] = True
    id: str
    revision: str
    subject: str = ""
    author: str = ""
    committed: float = 0.0
    begun: float = 0.0
    ended: float | None = None
    result: str = ""
    reached: Mapping[str, float] = field(default_factory=dict)
    rolls_back: str = ""
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class FleetOrders:
    """The orders of operators about fleets: which are ``withheld``, and which are pinned.

    Orders are keyed by branch, so that a new name of the fleet does not lift them, and by fleet where the branch
    was not known. ``pins`` may have pins that have ended.
    """

    withheld: Mapping[str, Act] = field(default_factory=dict)
    pins: Mapping[str, Pin] = field(default_factory=dict)

    def withholding(self, fleet: str, branch: str) -> Act | None:
        """Return the act by which a fleet is withheld; ``None`` if it is not."""
        return self.withheld.get(branch, self.withheld.get(fleet))

    def pin(self, fleet: str, branch: str, now: float) -> Pin | None:
        """Return the pin of a fleet at ``now``, in seconds since the epoch; ``None`` without a pin."""
        pin = self.pins.get(branch, self.pins.get(fleet))
        return None if pin is None or not pin.is_in_force(now) else pin


@dataclass(frozen=True, slots=True)
class MainCommit(Record):
    """A commit of the main branch, with the ids of its parents."""

    is_lenient: ClassVar[bool] = True
    commit: Annotated[CommitSummary, Key(flat=True)]
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MainCommits(Record):
    """The last commits of the main branch, the newest first, as the promoter read them."""

    is_lenient: ClassVar[bool] = True
    commits: tuple[MainCommit, ...] = ()

    def find(self, text: str) -> str:
        """Return the id of the only commit whose id begins with a text; raises ``RefusedError``."""
        found = [each.commit.id for each in self.commits if text and each.commit.id.startswith(text.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise RefusedError(f"{len(found)} commits begin with {text}: expected more characters")
        newest = f", up to {short(self.commits[0].commit.id)}" if self.commits else ""
        raise RefusedError(
            f"the main branch does not contain {text}, as far as the promoter has read that branch (the last"
            f" {counted(len(self.commits), 'commit')}{newest}); check the commit with 'git log', and whether a"
            " promoter runs"
        )

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether ``commit`` is ``ancestor`` or descends from it, as far as the last commits show that."""
        parents = {each.commit.id: each.parents for each in self.commits}
        reached, waiting = {commit}, [commit]
        while waiting:
            new = {*parents.get(waiting.pop(), ())} - reached
            reached |= new
            waiting += new
        return ancestor in reached


@dataclass(frozen=True, slots=True)
class Choice(Record):
    """The commit of the main branch from which promotions run in place of the tip, by the act of an operator.

    ``main`` is the tip at the time of the act: a rollback that is committed later ends the choice.
    """

    is_lenient: ClassVar[bool] = True
    act: Annotated[Act, Key(flat=True)]
    revision: str = ""
    main: str = ""

    def __str__(self) -> str:
        return f"promotions run from {short(self.revision)}, {self.authorship}"

    @property
    def authorship(self) -> str:
        """Who chose the commit, and why."""
        return f"chosen by {self.act.by}: {self.act.reason or NO_REASON}"


@dataclass(frozen=True, slots=True)
class PromoterReport(Record):
    """The last report of the leading promoter; ``time`` is in seconds since the epoch.

    ``main`` is the tip of the main branch. ``problem`` is one sentence on what keeps the promoter from its work,
    such as documents with errors; ``waiting`` is why the next promotion does not begin yet, such as a freeze.
    """

    is_lenient: ClassVar[bool] = True
    time: float = 0.0
    main: str | None = None
    problem: str = ""
    waiting: str = ""


@dataclass(frozen=True, slots=True)
class PromotionRecords:
    """The records of promoters and operators at one moment.

    ``state`` is the newest promotion. ``standings`` are keyed by fleet, ``history`` has the newest one first.
    ``choice`` is the commit from which promotions run, if an operator chose one.
    """

    state: RolloutState | None = None
    standings: Mapping[str, FleetStanding] = field(default_factory=dict)
    orders: FleetOrders = FleetOrders()
    history: tuple[PromotionEntry, ...] = ()
    report: PromoterReport | None = None
    choice: Choice | None = None

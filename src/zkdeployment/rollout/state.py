"""A rollout that is under way, as the coordinator keeps it in ZooKeeper: all that a successor needs to go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.act import Act
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.publication import Published
    from zkdeployment.model.strategy import Facts
    from zkdeployment.rollout.state_machine import Rollout, Task


class Ending(Enum):
    """How a rollout came to its end; its result says whether that was a success."""

    COMPLETED = "completed"  # all groups succeeded or failed
    ABORTED = "aborted"  # by an operator
    SUPERSEDED = "superseded"  # by a newer publication


class Directive(Enum):
    """What an operator may ask of a rollout."""

    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class RolloutAct:
    """An operator's act on a rollout; ``group`` is what is promoted. ``number`` grows from act to act."""

    directive: Directive
    act: Act
    group: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """What a host may enter; no phase: what it was granted is withdrawn, for a reason."""

    group: str
    phase: Phase | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """How a phase went on a host; ``time`` is in seconds since the epoch."""

    time: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """What a rollout lets one host do, and what that host reported; without its id there is no rollout yet."""

    rollout: str | None = None
    grant: Grant | None = None
    reports: Mapping[Phase, PhaseReport] = field(default_factory=dict)

    def allows(self, phase: Phase) -> bool:
        """Whether the host may be in a phase; who may deploy may prepare."""
        return self.grant is not None and self.grant.phase in {phase, Phase.DEPLOY}

    @property
    def is_excluded(self) -> bool:
        """Whether the rollout goes on without the host."""
        return self.grant is not None and self.grant.phase is None

    @property
    def failure(self) -> str | None:
        """What the host failed with in this rollout, or why that goes on without it; ``None`` if it may go on."""
        error = next((one.error for one in self.reports.values() if one.error is not None), None)
        if error is None and self.grant is not None and self.is_excluded:
            return f"rollout {self.rollout} goes on without this host: {self.grant.reason}"
        return error

    @property
    def obstacle(self) -> str:
        """Why the host may do no more than it may."""
        if self.rollout is None:
            return "no rollout of this publication is under way"
        if self.failure is not None:
            return self.failure
        if self.grant is None or self.grant.phase is None:
            return f"it is not its turn yet in rollout {self.rollout}"
        return f"rollout {self.rollout} has let it {self.grant.phase.value}, with group {self.grant.group}"


@dataclass(frozen=True, slots=True)
class ActivePhase:
    """A task under way: a phase of a group.

    ``granted`` are the hosts that were let in, with the time; ``reports`` are theirs. ``moved`` is when anything
    last happened. ``baking`` is when the last host was done, where the group is given time to prove itself. Times
    are in seconds since the epoch.
    """

    task: Task
    begun: float
    last_progress: float
    granted: Mapping[str, float] = field(default_factory=dict)
    reports: Mapping[str, PhaseReport] = field(default_factory=dict)
    baking_since: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutState:
    """A rollout of a publication (``sequence``), and its ``attempt``, from 1 on.

    ``waiting`` says in a sentence why nothing new begins, if so; ``held`` is since when that is because of a pause
    or the cluster version. ``looked`` is when a coordinator last looked, to half a minute, while hosts may be at
    work. ``errors`` are those of the hosts that failed. ``absent`` are the hosts that are not done and not
    registered, since when (0: nobody waits for them).

    ``late`` are the hosts that entered a phase after their groups were judged, with that phase; ``entered`` says
    when. ``proven`` are the hosts that stayed well with this revision for the time of a bake. ``promoted`` are the
    manual groups that may begin, ``forced`` the groups that may begin without the hosts that they require.
    ``taken`` is the number of the last act that was taken; ``acts`` are those that were.
    """

    sequence: int
    attempt: int
    revision: Revision
    rollout: Rollout
    begun: float
    active_phase: ActivePhase | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, float] = field(default_factory=dict)
    late_joiners: Mapping[str, Phase] = field(default_factory=dict)
    late_since: Mapping[str, float] = field(default_factory=dict)
    proven: frozenset[str] = frozenset()
    promoted: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()
    paused: Act | None = None
    halted_since: float | None = None
    coordinated_at: float | None = None
    acts: tuple[RolloutAct, ...] = ()
    last_act_number: int = -1
    waiting: str = ""
    ended: float | None = None
    ending: Ending | None = None

    @property
    def id(self) -> str:
        """The name of its node."""
        return f"{self.sequence}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class RolloutObservation:
    """What a coordinator sees at one moment.

    ``active`` says whether hosts may start the rollout's revision now. ``present`` are the registered hosts,
    ``current`` those of them that have the revision. Of the hosts that the rollout counts as successful,
    ``outdated`` are those that do not have the revision (any more), and of the hosts that have to prove themselves
    ``failing`` are those that show an error or do not have the revision. ``absent`` are hosts
    that are known but not registered, ``left`` says since when, of those that were seen before. ``reports`` are by
    phase and host. ``now`` is in seconds since the epoch, as all times.
    """

    now: float
    active: bool
    present: Mapping[str, Facts] = field(default_factory=dict)
    absent: Mapping[str, Facts] = field(default_factory=dict)
    left_at: Mapping[str, float] = field(default_factory=dict)
    current: frozenset[str] = frozenset()
    outdated: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    reports: Mapping[tuple[Phase, str], PhaseReport] = field(default_factory=dict)
    acts: tuple[RolloutAct, ...] = ()


@dataclass(frozen=True, slots=True)
class RolloutSnapshot:
    """What is to be rolled out, and the newest rollout; ``None`` where there never was one that can be read."""

    cluster: Cluster | None
    published: Published
    state: RolloutState | None = None

    @property
    def active(self) -> bool:
        """Whether hosts may start what was published, by its strategy."""
        return self.published.governs(self.cluster)

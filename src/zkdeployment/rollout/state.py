"""The values of a rollout under way: its state, grants and reports, operators' acts, recovery, observations.

The state is all that a succeeding coordinator needs to continue. Its encoding is in ``state_json``, the state
machine of groups and hosts in ``state_machine``, that of the recovery in ``recovery``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.unknown_keys import no_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.act import Act
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Facts
    from zkdeployment.model.publication import Published
    from zkdeployment.rollout.permission import Phase, PhaseReport
    from zkdeployment.rollout.state_machine import Rollout, Task


class Ending(Enum):
    """The reason of a rollout's end; its success is its ``RolloutResult``."""

    COMPLETED = "completed"  # all groups succeeded or failed
    ABORTED = "aborted"  # by an operator
    SUPERSEDED = "superseded"  # by a newer publication


class Directive(Enum):
    """An operator's instruction for a rollout."""

    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class RolloutAct:
    """An operator's act on a rollout; ``group`` is the promoted group. Numbers increase from act to act."""

    directive: Directive
    act: Act
    group: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class ActivePhase:
    """The task under way: one phase of one group.

    ``granted`` are the hosts that entered the phase, with the time; ``reports`` are theirs. ``last_progress`` is
    when a host last entered or reported. ``baking_since`` is when the last host reported, if the group's bake time
    is running. Times are in seconds since the epoch.
    """

    task: Task
    begun: float
    last_progress: float
    granted: Mapping[str, float] = field(default_factory=dict)
    reports: Mapping[str, PhaseReport] = field(default_factory=dict)
    baking_since: float | None = None


class RecoveryStage(Enum):
    """How far the recovery after a failed rollout is."""

    DUE = "due"  # the rollback is to be committed
    COMMITTED = "committed"  # the rollback is in the branch and is to be published
    PUBLISHED = "published"
    REFUSED = "refused"  # the recovery is left to the operators


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery after a failed rollout; ``commit`` is the rollback, ``reason`` why the recovery was refused."""

    stage: RecoveryStage
    commit: str = ""
    reason: str = ""

    def __str__(self) -> str:
        match self.stage:
            case RecoveryStage.DUE:
                return "the coordinator is about to roll back"
            case RecoveryStage.COMMITTED:
                return f"the rollback {self.commit} is committed and waits for its publication"
            case RecoveryStage.PUBLISHED:
                return f"rolled back by {self.commit}"
            case RecoveryStage.REFUSED:
                return f"not rolled back: {self.reason}"


@dataclass(frozen=True, slots=True)
class RolloutState:
    """An attempt (from 1 on) to roll out a publication, identified by its ``sequence``.

    ``waiting`` is the reason why nothing new begins, or empty. ``halted_since`` is the begin of a
    halt by a pause or by the cluster version. ``coordinated_at`` is when a coordinator last ran a cycle, to half a
    minute, while hosts may run a phase. ``errors`` are keyed by failed host. ``absent`` are unfinished hosts that
    are not registered, with the begin of their absence (0: the host does not block the rollout).

    ``late_joiners`` are the hosts that entered a phase after their groups got their verdicts, with that phase;
    ``late_since`` is when. ``proven`` are the hosts that stayed well with this revision for a bake time.
    ``promoted`` are the manual groups that may begin, ``forced`` the groups that may begin without their required
    hosts. ``acts`` are the applied acts, ``last_act_number`` is the number of the last one. Times are in seconds
    since the epoch.

    ``recovery`` is what follows the failure of a critical group, if the strategy asks for it. ``unknown`` are the
    keys of the record that this version does not know.
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
    recovery: Recovery | None = None
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def id(self) -> str:
        """The rollout's id, which is also the name of its node."""
        return f"{self.sequence}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class RolloutObservation:
    """The facts that a coordinator observes at one moment.

    ``active`` is whether hosts may start the rollout's revision now. ``present`` are the registered hosts and
    ``current`` those of them that have the revision. ``outdated`` are the hosts that the rollout counts as
    successful but that do not have the revision. ``failing`` are the hosts that have to prove themselves but show
    an error or do not have the revision. ``absent`` are known hosts that are not registered, ``left_at`` is when
    they left, if that was observed. ``reports`` are keyed by phase and host. ``unhealthy`` are the hosts with a
    check that is not OK, ``unchecked`` those with a check that has no result since the deployment, both with the
    reason. They are observed only when a group's checks are to be judged. Times are in seconds since the epoch.
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
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    unchecked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RolloutSnapshot:
    """The published revision and the newest rollout, if there is one that can be read, at one moment."""

    cluster: Cluster | None
    published: Published
    state: RolloutState | None = None

    @property
    def active(self) -> bool:
        """Whether hosts may start the published revision by its strategy."""
        return self.published.governs(self.cluster)

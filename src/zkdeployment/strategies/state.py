"""The state of a rollout under way: its values, and their encoding as JSON for one node.

The state is all that a succeeding coordinator needs to continue. The state machine of groups and hosts is in
``state_machine``, the state machine of the recovery in ``progress``. The encoding lists hosts once and refers to
them by number. Coordinators are upgraded during rollouts, so unknown keys are kept and written again.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Cluster, Revision, is_revision
from zkdeployment.base.records import APART, Key, Record, no_keys, unknown_keys
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.analysis import GroupAnalysis
from zkdeployment.strategies.documents import strategy_from_json, strategy_to_json
from zkdeployment.strategies.permission import Phase, PhaseReport, hosts_in, ranges, values_by_host
from zkdeployment.strategies.state_machine import GroupProgress, GroupVerdict, HostProgress, Rollout, Task
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zkdeployment.base.host import Facts
    from zkdeployment.base.publication import Published


class Ending(Enum):
    """The reason of a rollout's end; its success is its ``RolloutResult``."""

    COMPLETED = "completed"  # all groups succeeded or failed
    ABORTED = "aborted"  # by an operator
    SUPERSEDED = "superseded"  # by a newer publication


class Directive(Enum):
    """An operator's instruction for a rollout."""

    PROMOTE = "promote"
    FAIL = "fail"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class RolloutAct(Record):
    """An operator's act on a rollout, or on its ``group``. Numbers increase from act to act."""

    directive: Directive
    act: Annotated[Act, Key(flat=True)]
    group: str | None = None
    number: Annotated[int, APART] = 0


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
    """The stage of the recovery after a failed rollout."""

    DUE = "due"  # the rollback is to be committed
    COMMITTED = "committed"  # the rollback is in the branch and is to be published
    PUBLISHED = "published"
    REFUSED = "refused"  # the recovery is left to the operators


@dataclass(frozen=True, slots=True)
class Recovery(Record):
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

    ``waiting`` is the reason why nothing new begins, or empty, ``waiting_since`` its begin. ``halted_since`` is
    the begin of a halt by a pause or by the cluster version. ``coordinated_at`` is when a coordinator last ran a
    cycle while hosts could run a phase, to the half-minute. ``errors`` are keyed by failed host. ``absent`` are
    unfinished hosts that are not registered, with the begin of their absence (0: the host does not block the
    rollout).

    ``late_joiners`` are the hosts that entered a phase after their groups got their verdicts, with that phase;
    ``late_since`` is when. ``proven`` are the hosts that stayed healthy with this revision for a bake time.
    ``promoted`` are the manual groups that may begin, ``forced`` the groups that may begin without their required
    hosts. ``acts`` are the applied acts, ``last_act_number`` is the number of the last one. Times are in seconds
    since the epoch.

    ``analyses`` are the analyses of groups, with their measurements.

    ``recovery`` follows the failure of a critical group, if the strategy requests one. ``unknown`` are the keys of
    the record that this version does not know.
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
    waiting_since: float | None = None
    ended: float | None = None
    ending: Ending | None = None
    recovery: Recovery | None = None
    analyses: Mapping[str, GroupAnalysis] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

    @property
    def id(self) -> str:
        """The rollout's id, which is also the name of its node."""
        return f"{self.sequence}-{self.attempt}"

    @property
    def kind(self) -> MemberKind:
        """The kind of the rollout's members."""
        return self.rollout.strategy.member_kind


@dataclass(frozen=True, slots=True)
class RolloutFacts:
    """The facts that a coordinator observes at one moment.

    ``halt`` is why no host may start the rollout's revision now; empty if hosts may start. ``present`` are the
    registered hosts and ``current`` those of them that have the revision. ``outdated`` are the hosts that the
    rollout counts as successful but that lost the revision. ``failing`` are the hosts in their bake time
    that show an error or lost the revision. ``absent`` are known hosts that are not registered,
    ``maintenance`` the hosts in maintenance, which are not ``present``. ``rebooting`` are hosts that are expected
    back from a reboot: they are neither present nor absent.
    ``left_at`` has the times at which absent hosts left, if a coordinator observed that. ``reports`` are keyed by
    phase and host. ``outside`` has the facts for the criteria that wait for something outside, by the names of the
    criteria. Times are in seconds since the epoch.
    """

    now: float
    halt: str = ""
    present: Mapping[str, Facts] = field(default_factory=dict)
    absent: Mapping[str, Facts] = field(default_factory=dict)
    maintenance: frozenset[str] = frozenset()
    rebooting: frozenset[str] = frozenset()
    left_at: Mapping[str, float] = field(default_factory=dict)
    current: frozenset[str] = frozenset()
    outdated: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    reports: Mapping[tuple[Phase, str], PhaseReport] = field(default_factory=dict)
    acts: tuple[RolloutAct, ...] = ()
    outside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RolloutSnapshot:
    """The published revision and the newest readable rollout, at one moment."""

    cluster: Cluster | None
    published: Published
    state: RolloutState | None = None

    @property
    def active(self) -> bool:
        """Whether hosts may start the published revision under its strategy."""
        return self.published.governs(self.cluster)


#: Acts that are kept in the short form, and characters of their reasons.
_MOST_ACTS = 50
_LONGEST_SENTENCE = 500

#: The measurements of a metric that are kept in the short form.
_FEW_MEASUREMENTS = 10

#: The progress of each host is one letter.
_LETTERS = {
    HostProgress.NOT_STARTED: "-",
    HostProgress.PREPARED: "p",
    HostProgress.SUCCESS: "s",
    HostProgress.FAILURE: "f",
}
#: The keys of a state.
_KEYS = frozenset(
    {
        "sequence",
        "attempt",
        "revision",
        "strategy",
        "hosts",
        "states",
        "members",
        "courses",
        "order",
        "begun",
        "stage",
        "errors",
        "absent",
        "late",
        "entered",
        "proven",
        "promoted",
        "forced",
        "paused",
        "held",
        "looked",
        "acts",
        "taken",
        "waiting",
        "waited",
        "ended",
        "ending",
        "kind",
        "recovery",
        "analyses",
    }
)

_STATES = {letter: state for state, letter in _LETTERS.items()}


def state_to_json(state: RolloutState, *, longest: int | None = None) -> dict[str, object]:
    """Return a state as JSON; equal states give equal values.

    With ``longest`` the value has a short form: errors have at most ``longest`` characters, only the
    last acts are kept, and hosts are grouped by equal values.
    """
    if longest is not None:
        state = _shortened(state, longest)
    rollout = state.rollout
    hosts = sorted(rollout.hosts)
    numbers = {host: number for number, host in enumerate(hosts)}

    def ranges_of(names: Iterable[str]) -> str:
        return ranges(sorted(map(numbers.__getitem__, names)))

    def by_host(values: Mapping[str, object]) -> object:
        if longest is None:
            return dict(values)
        return [[value, ranges_of(names)] for value, names in _by_value(values)]

    return {
        **state.unknown,
        "sequence": state.sequence,
        "attempt": state.attempt,
        "revision": state.revision,
        "strategy": strategy_to_json(rollout.strategy),
        "hosts": hosts,
        "states": "".join([_LETTERS[rollout.hosts[host]] for host in hosts]),
        "members": {name: ranges_of(members) for name, members in rollout.members.items()},
        "courses": {name: _progress_to_json(progress, ranges_of) for name, progress in rollout.progress.items()},
        "order": list(rollout.order),
        "begun": state.begun,
        "stage": None if state.active_phase is None else _active_phase_to_json(state.active_phase, ranges_of),
        "errors": by_host(state.errors),
        "absent": by_host(state.absent),
        "late": by_host({host: phase.value for host, phase in state.late_joiners.items()}),
        "entered": by_host(state.late_since),
        "proven": ranges_of(state.proven),
        "promoted": sorted(state.promoted),
        "forced": sorted(state.forced),
        "paused": None if state.paused is None else state.paused.to_json(),
        "held": state.halted_since,
        "looked": state.coordinated_at,
        "acts": [act.to_json() | {"number": act.number} for act in state.acts],
        "taken": state.last_act_number,
        "waiting": state.waiting,
        "waited": state.waiting_since,
        "ended": state.ended,
        "ending": None if state.ending is None else state.ending.value,
        **({} if rollout.strategy.member_kind is MemberKind.HOST else {"kind": rollout.strategy.member_kind.noun}),
        **({} if state.recovery is None else {"recovery": state.recovery.to_json()}),
        **({"analyses": _analyses_to_json(state.analyses)} if state.analyses else {}),
    }


def _shortened(state: RolloutState, longest: int) -> RolloutState:
    """Return the state with shorter errors and sentences, and fewer acts."""
    active = state.active_phase
    if active is not None:
        reports = {
            host: report if report.error is None else replace(report, error=_cut(report.error, longest))
            for host, report in active.reports.items()
        }
        active = replace(active, reports=reports)
    paused = state.paused
    return replace(
        state,
        active_phase=active,
        errors={host: _cut(error, longest) for host, error in state.errors.items()},
        paused=None if paused is None else _cut_act(paused),
        waiting=_cut(state.waiting, _LONGEST_SENTENCE),
        acts=tuple(replace(act, act=_cut_act(act.act)) for act in state.acts[-_MOST_ACTS:]),
        analyses={name: each.thinned(_FEW_MEASUREMENTS) for name, each in state.analyses.items()},
    )


def without_variables(state: RolloutState, *, judged: bool) -> RolloutState:
    """Return the state without the values of queries' variables, of all groups or only of those with verdicts."""
    progress = state.rollout.progress
    gone = {name for name in state.analyses if progress[name].verdict is not None or not judged}
    analyses = {name: each.without_variables() if name in gone else each for name, each in state.analyses.items()}
    return replace(state, analyses=analyses)


def _analyses_to_json(analyses: Mapping[str, GroupAnalysis]) -> dict[str, object]:
    return {name: analysis.to_json() for name, analysis in analyses.items()}


def _cut_act(act: Act) -> Act:
    return replace(act, reason=_cut(act.reason, _LONGEST_SENTENCE))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def state_from_json(value: object) -> RolloutState:
    """Return the state that ``state_to_json`` encoded; raises ``ValueError`` for anything else."""
    try:
        return _read_state(value)
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a valid rollout: {type(error).__name__}: {error}") from error


def _read_state(value: Any) -> RolloutState:
    hosts: list[str] = [_text(host) for host in value["hosts"]]

    def members_of(text: str) -> list[str]:
        return hosts_in(hosts, text)

    def by_host(values: Any) -> Mapping[str, Any]:
        return values_by_host(hosts, values)

    revision = value["revision"]
    if not is_revision(revision):
        raise ValueError(f"not a valid rollout: expected a revision, found {revision!r}")
    kind = next(kind for kind in MemberKind if kind.noun == value.get("kind", MemberKind.HOST.noun))
    rollout = Rollout(
        replace(strategy_from_json(value["strategy"]), member_kind=kind),
        members={name: frozenset(members_of(members)) for name, members in value["members"].items()},
        hosts={host: _STATES[letter] for host, letter in zip(hosts, value["states"], strict=True)},
        progress={name: _progress(progress, members_of) for name, progress in value["courses"].items()},
        order=tuple(value["order"]),
    )
    return RolloutState(
        sequence=int(value["sequence"]),
        attempt=int(value["attempt"]),
        revision=revision,
        rollout=rollout,
        begun=float(value["begun"]),
        active_phase=None if value["stage"] is None else _active_phase(value["stage"], members_of),
        errors={host: _text(error) for host, error in by_host(value["errors"]).items()},
        absent={host: float(since) for host, since in by_host(value["absent"]).items()},
        late_joiners={host: Phase(phase) for host, phase in by_host(value["late"]).items()},
        late_since={host: float(when) for host, when in by_host(value["entered"]).items()},
        proven=frozenset(members_of(value["proven"])),
        promoted=frozenset(value["promoted"]),
        forced=frozenset(value["forced"]),
        paused=None if value["paused"] is None else Act.from_json(value["paused"]),
        halted_since=_number(value["held"]),
        coordinated_at=_number(value["looked"]),
        acts=tuple(RolloutAct.from_json(act, number=int(act["number"])) for act in value["acts"]),
        last_act_number=int(value["taken"]),
        waiting=_text(value["waiting"]),
        waiting_since=_number(value.get("waited")),
        ended=_number(value["ended"]),
        ending=None if value["ending"] is None else Ending(value["ending"]),
        recovery=None if value.get("recovery") is None else Recovery.from_json(value["recovery"]),
        analyses={name: GroupAnalysis.from_json(each) for name, each in value.get("analyses", {}).items()},
        unknown=unknown_keys(value, _KEYS),
    )


def _progress_to_json(progress: GroupProgress, ranges_of: Callable[[Iterable[str]], str]) -> dict[str, object]:
    return {
        "verdicts": {phase.value: verdict.value for phase, verdict in progress.verdicts.items()},
        "sent": {phase.value: ranges_of(hosts) for phase, hosts in progress.submitted.items()},
        "reason": progress.reason,
    }


def _progress(value: Any, members_of: Callable[[str], list[str]]) -> GroupProgress:
    return GroupProgress(
        verdicts={Phase(phase): GroupVerdict(verdict) for phase, verdict in value["verdicts"].items()},
        submitted={Phase(phase): tuple(members_of(hosts)) for phase, hosts in value["sent"].items()},
        reason=_text(value["reason"]),
    )


def _active_phase_to_json(active: ActivePhase, ranges_of: Callable[[Iterable[str]], str]) -> dict[str, object]:
    return {
        "group": active.task.group,
        "phase": active.task.phase.value,
        "hosts": ranges_of(active.task.hosts),
        "begun": active.begun,
        "moved": active.last_progress,
        "baking": active.baking_since,
        "granted": [[when, ranges_of(hosts)] for when, hosts in _by_value(active.granted)],
        "reports": [[report.time, report.error, ranges_of(hosts)] for report, hosts in _by_value(active.reports)],
    }


def _active_phase(value: Any, members_of: Callable[[str], list[str]]) -> ActivePhase:
    return ActivePhase(
        Task(value["group"], Phase(value["phase"]), tuple(members_of(value["hosts"]))),
        begun=float(value["begun"]),
        last_progress=float(value["moved"]),
        baking_since=_number(value["baking"]),
        granted={host: float(when) for when, hosts in value["granted"] for host in members_of(hosts)},
        reports={
            host: PhaseReport(float(when), None if error is None else _text(error))
            for when, error, hosts in value["reports"]
            for host in members_of(hosts)
        },
    )


def _by_value(values: Mapping[str, Any]) -> Iterator[tuple[Any, list[str]]]:
    """Return each value with its hosts: many hosts share a value, such as the time of their grant."""
    hosts: dict[Any, list[str]] = {}
    for host, value in values.items():
        hosts.setdefault(value, []).append(host)
    return iter(sorted(hosts.items(), key=lambda item: min(item[1]) if len(item[1]) > 1 else item[1][0]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)

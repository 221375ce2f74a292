"""A rollout that is under way as JSON, small enough for one node: hosts are listed once, all else counts them.

Coordinators are upgraded while rollouts are under way. What a newer one adds is ignored; what is added has to have
a default, for states from before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.model.act import Act
from zkdeployment.model.cluster import is_revision
from zkdeployment.rollout.encoding import strategy_from_json, strategy_to_json
from zkdeployment.rollout.state import ActivePhase, Directive, Ending, PhaseReport, RolloutAct, RolloutState
from zkdeployment.rollout.state_machine import GroupProgress, GroupVerdict, HostProgress, Phase, Rollout, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.model.tree import Value

#: Acts that are kept where space is short, and characters of their reasons.
_MOST_ACTS = 50
_LONGEST_SENTENCE = 500

#: Each host's state is one letter.
_LETTERS = {
    HostProgress.NOT_STARTED: "-",
    HostProgress.PREPARED: "p",
    HostProgress.SUCCESS: "s",
    HostProgress.FAILURE: "f",
}
_STATES = {letter: state for state, letter in _LETTERS.items()}


def state_to_json(state: RolloutState, *, longest: int | None = None) -> dict[str, object]:
    """Return all of it; equal rollouts give equal values.

    With ``longest`` it is smaller, and coordinators from before there was that form cannot read it: errors have so
    many characters at most, only the last acts are kept, and hosts are listed by what they have in common.
    """
    if longest is not None:
        state = _shortened(state, longest)
    rollout = state.rollout
    hosts = sorted(rollout.hosts)
    numbers = {host: number for number, host in enumerate(hosts)}

    def several(names: Iterable[str]) -> str:
        return _ranges(sorted(numbers[name] for name in names))

    def by_host(values: Mapping[str, object]) -> object:
        if longest is None:
            return dict(values)
        return [[value, several(names)] for value, names in _by_value(values)]

    return {
        "sequence": state.sequence,
        "attempt": state.attempt,
        "revision": state.revision,
        "strategy": strategy_to_json(rollout.strategy),
        "hosts": hosts,
        "states": "".join(_LETTERS[rollout.hosts[host]] for host in hosts),
        "members": {name: several(found) for name, found in rollout.members.items()},
        "courses": {name: _progress_to_json(progress, several) for name, progress in rollout.progress.items()},
        "order": list(rollout.order),
        "begun": state.begun,
        "stage": None if state.active_phase is None else _active_phase_to_json(state.active_phase, several),
        "errors": by_host(state.errors),
        "absent": by_host(state.absent),
        "late": by_host({host: phase.value for host, phase in state.late_joiners.items()}),
        "entered": by_host(state.late_since),
        "proven": several(state.proven),
        "promoted": sorted(state.promoted),
        "forced": sorted(state.forced),
        "paused": None if state.paused is None else state.paused.to_json(),
        "held": state.halted_since,
        "looked": state.coordinated_at,
        "acts": [act_to_json(one) | {"number": one.number} for one in state.acts],
        "taken": state.last_act_number,
        "waiting": state.waiting,
        "ended": state.ended,
        "ending": None if state.ending is None else state.ending.value,
    }


def _shortened(state: RolloutState, longest: int) -> RolloutState:
    """Return the rollout with shorter errors and sentences, and fewer acts."""
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
        acts=tuple(replace(one, act=_cut_act(one.act)) for one in state.acts[-_MOST_ACTS:]),
    )


def _cut_act(act: Act) -> Act:
    return replace(act, reason=_cut(act.reason, _LONGEST_SENTENCE))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def state_from_json(value: object) -> RolloutState:
    """Read what ``running_to_json`` returned; raises ``ValueError`` for anything else."""
    try:
        return _read_state(value)
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"no valid rollout: {type(error).__name__}: {error}") from error


def act_to_json(act: RolloutAct) -> dict[str, Value]:
    """Return an operator's act without its number, which its node has in its name."""
    return {**act.act.to_json(), "directive": act.directive.value, "group": act.group}


def act_from_json(value: Mapping[str, Any], number: int) -> RolloutAct:
    """Read an operator's act; raises ``ValueError`` for what nobody can do."""
    group = value.get("group")
    return RolloutAct(
        Directive(value.get("directive")), Act.from_json(value), group if isinstance(group, str) else None, number
    )


def _read_state(value: Any) -> RolloutState:
    hosts: list[str] = [_text(host) for host in value["hosts"]]

    def several(ranges: str) -> list[str]:
        return [host for part in _parts(ranges) for host in hosts[part]]

    def by_host(values: Any) -> Mapping[str, Any]:
        if isinstance(values, dict):
            return values
        return {host: value for value, ranges in values for host in several(ranges)}

    revision = value["revision"]
    if not is_revision(revision):
        raise ValueError(f"no valid rollout: expected a revision, found {revision!r}")
    rollout = Rollout(
        strategy_from_json(value["strategy"]),
        members={name: frozenset(several(found)) for name, found in value["members"].items()},
        hosts={host: _STATES[letter] for host, letter in zip(hosts, value["states"], strict=True)},
        progress={name: _progress(found, several) for name, found in value["courses"].items()},
        order=tuple(value["order"]),
    )
    return RolloutState(
        sequence=int(value["sequence"]),
        attempt=int(value["attempt"]),
        revision=revision,
        rollout=rollout,
        begun=float(value["begun"]),
        active_phase=None if value["stage"] is None else _active_phase(value["stage"], several),
        errors={host: _text(error) for host, error in by_host(value["errors"]).items()},
        absent={host: float(since) for host, since in by_host(value["absent"]).items()},
        late_joiners={host: Phase(phase) for host, phase in by_host(value["late"]).items()},
        late_since={host: float(when) for host, when in by_host(value.get("entered", {})).items()},
        proven=frozenset(several(value.get("proven", ""))),
        promoted=frozenset(value["promoted"]),
        forced=frozenset(value.get("forced", ())),
        paused=None if value["paused"] is None else Act.from_json(value["paused"]),
        halted_since=_number(value["held"]),
        coordinated_at=_number(value["looked"] if "looked" in value else (value["stage"] or {}).get("looked")),
        acts=tuple(act_from_json(one, int(one["number"])) for one in value["acts"]),
        last_act_number=int(value["taken"]),
        waiting=_text(value["waiting"]),
        ended=_number(value["ended"]),
        ending=None if value["ending"] is None else Ending(value["ending"]),
    )


def _progress_to_json(progress: GroupProgress, several: Callable[[Iterable[str]], str]) -> dict[str, object]:
    return {
        "verdicts": {phase.value: verdict.value for phase, verdict in progress.verdicts.items()},
        "sent": {phase.value: several(hosts) for phase, hosts in progress.submitted.items()},
        "reason": progress.reason,
    }


def _progress(value: Any, several: Callable[[str], list[str]]) -> GroupProgress:
    return GroupProgress(
        verdicts={Phase(phase): GroupVerdict(verdict) for phase, verdict in value["verdicts"].items()},
        submitted={Phase(phase): tuple(several(hosts)) for phase, hosts in value["sent"].items()},
        reason=_text(value["reason"]),
    )


def _active_phase_to_json(active: ActivePhase, several: Callable[[Iterable[str]], str]) -> dict[str, object]:
    return {
        "group": active.task.group,
        "phase": active.task.phase.value,
        "hosts": several(active.task.hosts),
        "begun": active.begun,
        "moved": active.last_progress,
        "baking": active.baking_since,
        "granted": [[when, several(hosts)] for when, hosts in _by_value(active.granted)],
        "reports": [[one.time, one.error, several(hosts)] for one, hosts in _by_value(active.reports)],
    }


def _active_phase(value: Any, several: Callable[[str], list[str]]) -> ActivePhase:
    return ActivePhase(
        Task(value["group"], Phase(value["phase"]), tuple(several(value["hosts"]))),
        begun=float(value["begun"]),
        last_progress=float(value["moved"]),
        baking_since=_number(value["baking"]),
        granted={host: float(when) for when, hosts in value["granted"] for host in several(hosts)},
        reports={
            host: PhaseReport(float(when), None if error is None else _text(error))
            for when, error, hosts in value["reports"]
            for host in several(hosts)
        },
    )


def _by_value(found: Mapping[str, Any]) -> Iterator[tuple[Any, list[str]]]:
    """Group hosts by what they have in common: many were granted at the same moment."""
    hosts: dict[Any, list[str]] = {}
    for host, one in found.items():
        hosts.setdefault(one, []).append(host)
    return iter(sorted(hosts.items(), key=lambda item: min(item[1])))


def _ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text: ``0-3 7 9-12``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _parts(ranges: str) -> Iterator[slice]:
    for part in ranges.split():
        first, _, last = part.partition("-")
        yield slice(int(first), int(last or first) + 1)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r}")
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)

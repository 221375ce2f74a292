"""Absent hosts: since when they are absent, when they are gone, and which groups wait for required hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.model.host import RESTART
from zkdeployment.rollout import timekeeping
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.state_machine import NEXT_PHASE, HostProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import RolloutObservation, RolloutState


def at_start(strategy: Strategy, observation: RolloutObservation) -> Mapping[str, float]:
    """Return the hosts that are absent when a rollout begins, with the time of absence that counts.

    Absent hosts do not block the rollout: their time is 0. A host that deregistered within the last ``RESTART``
    seconds is assumed to be restarting and is waited for.
    """
    absent = dict.fromkeys(sorted(observation.absent.keys() - observation.present.keys()), 0.0)
    grace = RESTART - strategy.absent_after
    return absent | {
        host: observation.left_at[host] + grace for host in absent.keys() & observation.left_at.keys()
    }


def note(state: RolloutState, observation: RolloutObservation, proving: frozenset[str]) -> RolloutState:
    """Return the rollout with the absences of unfinished hosts, and of hosts that are ``proving`` themselves."""
    if state.ended is None:
        states = state.rollout.hosts
        away = [host for host in states if host not in observation.present]
        tracked = [host for host in away if states[host] in NEXT_PHASE or host in proving]
    else:
        tracked = sorted(state.late_joiners.keys() - observation.present.keys())
    absent = {host: state.absent.get(host, observation.now) for host in tracked}
    return state if absent == state.absent else replace(state, absent=absent)


def is_gone(state: RolloutState, host: str, now: float) -> bool:
    """Whether a host has been absent for longer than ``absent_after``; the time of a halt does not count."""
    since = state.absent.get(host)
    return since is not None and timekeeping.counted_until(state, now) >= since + _absent_after(state)


def moment(state: RolloutState, host: str) -> float:
    """Return when an absent host counts as gone, in seconds since the epoch."""
    return state.absent[host] + _absent_after(state)


def error(state: RolloutState) -> str:
    """Return the error of a host that is gone."""
    return f"its agent has been absent for {_absent_after(state):g} s"


def shortage(state: RolloutState, name: str) -> str:
    """Return how many hosts a group requires and has, if it has too few; empty if its next phase may begin.

    A critical group requires at least one of its hosts, as a group whose hosts are all absent cannot fail. A
    prepared group requires one host that is prepared or has finished.
    """
    group, members = state.rollout.strategy.group(name), state.rollout.members[name]
    prepared = Phase.PREPARE in state.rollout.progress[name].verdicts
    required = group.require_hosts or (1 if group.critical and members else 0)
    required = min(1, required) if prepared else required
    useful = {HostProgress.PREPARED} if prepared else NEXT_PHASE.keys()
    states = {host: state.rollout.hosts[host] for host in members}
    present = sum(
        1
        for host, progress in states.items()
        if progress not in NEXT_PHASE or (progress in useful and host not in state.absent)
    )
    if present >= required or name in state.forced:
        return ""
    requirement = "prepared and registered" if prepared else "registered"
    return f"requires {required} {requirement} host{'s' if required > 1 else ''}, found {present}"


def _absent_after(state: RolloutState) -> float:
    return state.rollout.strategy.absent_after

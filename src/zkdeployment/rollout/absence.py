"""Hosts that are away: since when, for how long that is a restart, and which groups have to wait for theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import timekeeping
from zkdeployment.rollout.state_machine import NEXT_PHASE, HostProgress, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import RolloutObservation, RolloutState

#: Seconds that an agent may be away that left before the rollout began, when it had nothing to do yet.
RESTART = 60.0


def at_start(strategy: Strategy, observation: RolloutObservation) -> Mapping[str, float]:
    """Return the hosts that are absent when a rollout begins, since when.

    The rollout waits for none of them, but for a moment for those that have just left: that may be a restart.
    """
    absent = dict.fromkeys(sorted(observation.absent.keys() - observation.present.keys()), 0.0)
    grace = RESTART - strategy.absent_after
    return absent | {
        host: observation.left_at[host] + grace for host in absent.keys() & observation.left_at.keys()
    }


def note(state: RolloutState, observation: RolloutObservation, proving: frozenset[str]) -> RolloutState:
    """Return the rollout with the hosts that are away and not done, or ``proving`` themselves, since when."""
    if state.ended is None:
        states = state.rollout.hosts
        away = [host for host in states if host not in observation.present]
        tracked = [host for host in away if states[host] in NEXT_PHASE or host in proving]
    else:
        tracked = sorted(state.late_joiners.keys() - observation.present.keys())
    absent = {host: state.absent.get(host, observation.now) for host in tracked}
    return state if absent == state.absent else replace(state, absent=absent)


def is_gone(state: RolloutState, host: str, now: float) -> bool:
    """Whether a host has been away for longer than a restart takes; the time of a halt does not count."""
    since = state.absent.get(host)
    return since is not None and timekeeping.counted_until(state, now) >= since + _patience(state)


def moment(state: RolloutState, host: str) -> float:
    """Return when a host that is away is gone, in seconds since the epoch."""
    return state.absent[host] + _patience(state)


def error(state: RolloutState) -> str:
    """Say what is wrong with a host that is gone."""
    return f"its agent is gone for {_patience(state):g} s"


def shortage(state: RolloutState, name: str) -> str:
    """Say how many hosts a group requires and has, if these are too few; empty if its next phase may begin.

    A critical group requires at least one of its hosts: no failure of a group shows where all its hosts are away.
    A group that was prepared requires one that was, or that is done.
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
    what = "prepared and registered" if prepared else "registered"
    return f"requires {required} {what} host{'s' if required > 1 else ''}, found {present}"


def _patience(state: RolloutState) -> float:
    return state.rollout.strategy.absent_after

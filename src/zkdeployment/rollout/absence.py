"""Hosts that are away: since when, for how long that is a restart, and which groups have to wait for theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import timekeeping
from zkdeployment.rollout.engine import HostProgress, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import RolloutObservation, RolloutState

#: Seconds that an agent may be away that left before the rollout began, when it had nothing to do yet.
RESTART = 60.0

_UNDONE = frozenset({HostProgress.NOT_STARTED, HostProgress.PREPARED})


def at_start(strategy: Strategy, observation: RolloutObservation) -> Mapping[str, float]:
    """Return the hosts that are absent when a rollout begins, since when.

    The rollout waits for none of them, but for a moment for those that have just left: that may be a restart.
    """
    absent = dict.fromkeys(sorted(observation.absent.keys() - observation.present.keys()), 0.0)
    grace = RESTART - strategy.absent_after
    return absent | {host: observation.left[host] + grace for host in absent.keys() & observation.left.keys()}


def note(running: RolloutState, observation: RolloutObservation, proving: frozenset[str]) -> RolloutState:
    """Return the rollout with the hosts that are away and not done, or ``proving`` themselves, since when."""
    if running.ended is None:
        states = running.rollout.hosts
        away = [host for host in states if host not in observation.present]
        tracked = [host for host in away if states[host] in _UNDONE or host in proving]
    else:
        tracked = sorted(running.late.keys() - observation.present.keys())
    absent = {host: running.absent.get(host, observation.now) for host in tracked}
    return running if absent == running.absent else replace(running, absent=absent)


def is_gone(running: RolloutState, host: str, now: float) -> bool:
    """Whether a host has been away for longer than a restart takes; the time of a halt does not count."""
    since = running.absent.get(host)
    return since is not None and timekeeping.counted_until(running, now) >= since + _patience(running)


def moment(running: RolloutState, host: str) -> float:
    """Return when a host that is away is gone, in seconds since the epoch."""
    return running.absent[host] + _patience(running)


def error(running: RolloutState) -> str:
    """Say what is wrong with a host that is gone."""
    return f"its agent is gone for {_patience(running):g} s"


def shortage(running: RolloutState, name: str) -> str:
    """Say how many hosts a group requires and has, if these are too few; empty if its next phase may begin.

    A critical group requires at least one of its hosts: no failure of a group shows where all its hosts are away.
    A group that was prepared requires one that was, or that is done.
    """
    group, members = running.rollout.strategy.group(name), running.rollout.members[name]
    prepared = Phase.PREPARE in running.rollout.courses[name].verdicts
    required = group.require_hosts or (1 if group.critical and members else 0)
    required = min(1, required) if prepared else required
    useful = {HostProgress.PREPARED} if prepared else _UNDONE
    states = {host: running.rollout.hosts[host] for host in members}
    present = sum(
        1
        for host, state in states.items()
        if state not in _UNDONE or (state in useful and host not in running.absent)
    )
    if present >= required or name in running.forced:
        return ""
    what = "prepared and registered" if prepared else "registered"
    return f"requires {required} {what} host{'s' if required > 1 else ''}, found {present}"


def _patience(running: RolloutState) -> float:
    return running.rollout.strategy.absent_after

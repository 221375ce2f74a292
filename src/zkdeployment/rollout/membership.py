"""Hosts that join a rollout under way, and hosts that start it again because they lost its revision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import engine
from zkdeployment.rollout.state_machine import NEXT_PHASE, HostProgress

if TYPE_CHECKING:
    from zkdeployment.rollout.state import RolloutObservation, RolloutState


def admit_registered(state: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Return the rollout with the hosts that registered since; a host replaces the entry for its bare name."""
    new = {host: observation.present[host] for host in observation.present.keys() - state.rollout.hosts.keys()}
    if not new:
        return state
    host_names = {facts.name for facts in new.values()} - {None}
    replaced = {
        host for host in state.rollout.hosts.keys() & host_names if _is_bare_name(state, host, observation)
    }
    rollout = engine.dismiss(state.rollout, replaced) if replaced else state.rollout
    absent = {host: since for host, since in state.absent.items() if host not in replaced}
    return replace(state, rollout=engine.admit(rollout, new, successful=observation.current), absent=absent)


def _is_bare_name(state: RolloutState, host: str, observation: RolloutObservation) -> bool:
    """Whether an entry is only a target's host name: not registered, and never granted anything."""
    granted = {} if state.active_phase is None else state.active_phase.granted
    not_started = state.rollout.hosts[host] is HostProgress.NOT_STARTED
    absent = host not in observation.present
    return not_started and absent and host not in granted and host not in state.late_joiners


def restart_outdated(
    state: RolloutState, observation: RolloutObservation
) -> tuple[RolloutState, RolloutObservation]:
    """Return the rollout in which hosts that lost the revision start again, and the observation to go with it.

    The observation has no reports of these hosts, as theirs are from before they lost the revision.
    """
    lost = {host for host in observation.outdated if state.rollout.hosts.get(host) is HostProgress.SUCCESS}
    if not lost or not observation.active:
        return state, observation
    reports = {key: report for key, report in observation.reports.items() if key[1] not in lost}
    state = replace(state, rollout=engine.restart(state.rollout, lost), proven=state.proven - lost)
    return state, replace(observation, reports=reports)


def restarted_hosts(before: RolloutState, after: RolloutState) -> frozenset[str]:
    """Return the hosts that had succeeded and start again: their reports have to be removed."""
    return frozenset(
        host
        for host, progress in before.rollout.hosts.items()
        if progress is HostProgress.SUCCESS and after.rollout.hosts.get(host) in NEXT_PHASE
    )

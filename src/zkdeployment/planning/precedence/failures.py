"""Decides for which hosts it is in vain to wait in a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.rollout.state_machine import HostProgress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.rollout.state import RolloutState


def undeployable_hosts(state: RolloutState, hosts: Iterable[str]) -> dict[str, str]:
    """Return those of the unfinished ``hosts`` that will not deploy in this rollout, with the reason.

    These are hosts that failed, and hosts that have not succeeded and do not belong to the group under way: groups
    run one after the other, and a later group is never awaited.
    """
    rollout, active = state.rollout, state.active_phase
    under_way = None if active is None else rollout.members[active.task.group]
    reports = {} if active is None else active.reports
    reasons = {}
    for host_id in hosts:
        if rollout.hosts.get(host_id) is HostProgress.SUCCESS:
            continue
        error = reports[host_id].error if host_id in reports else None
        if error is not None or rollout.hosts.get(host_id) is HostProgress.FAILURE:
            reasons[host_id] = error or state.errors.get(host_id, "the host failed")
        elif under_way is not None and host_id not in under_way and host_id not in state.late_joiners:
            reasons[host_id] = "the host's group was not rolled out"
    return reasons

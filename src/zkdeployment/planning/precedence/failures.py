"""Decides which hosts will not deploy in a rollout, so that it is useless to wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.rollout.outline import RolloutOutline


def undeployable_hosts(rollout: RolloutOutline, hosts: Iterable[str]) -> dict[str, str]:
    """Return those of the unfinished ``hosts`` that will not deploy in this rollout, with the reason.

    These are hosts that failed, and hosts that have not succeeded and do not belong to the group under way: groups
    run one after the other, and a later group is never awaited.
    """
    awaited = None if rollout.under_way is None else rollout.under_way | rollout.late_joiners
    reasons = {}
    for host_id in hosts:
        if host_id in rollout.succeeded:
            continue
        if host_id in rollout.failures:
            reasons[host_id] = rollout.failures[host_id]
        elif awaited is not None and host_id not in awaited:
            reasons[host_id] = "the host's group was not rolled out"
    return reasons

"""Removed mechanisms of features: approvals and pauses of rollouts, and leases of hosts."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.pools.host.leases import LeaseFollower
from zkdeployment.strategies import progress, timekeeping
from zkdeployment.strategies.store.agent_records import granting_id
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Iterator


def approvals_ignored() -> contextlib.AbstractContextManager[Any]:
    """Begin groups that wait for an operator."""
    return mock.patch.object(progress, "_obstacle", return_value="")


@contextlib.contextmanager
def pauses_ignored() -> Iterator[None]:
    """Grant phases to further hosts while the rollout is paused."""
    note_halt = timekeeping.note_halt

    def blind(state: Any, facts: Any) -> Any:
        return replace(note_halt(replace(state, paused=None), facts), paused=state.paused)

    with (
        mock.patch.object(timekeeping, "note_halt", blind),
        mock.patch.object(progress, "_halt_reason", return_value=""),
    ):
        yield


@contextlib.contextmanager
def grants_of_other_publications() -> Iterator[None]:
    """Let hosts follow the grants of any rollout, also of one of an earlier publication."""
    permission = ZooKeeperFleet.permission

    def of_any(self: Any, sequence: int, *arguments: Any, **options: Any) -> Any:
        current = granting_id(self._session.get(paths.ROLLOUTS))
        return permission(self, int(current.split("-")[0]) if current else sequence, *arguments, **options)

    with mock.patch.object(ZooKeeperFleet, "permission", of_any):
        yield


def leases_unread() -> contextlib.AbstractContextManager[Any]:
    """Continue a deployment although another lease may take keys away from the host."""
    return mock.patch.multiple(LeaseFollower, check=lambda _self: None, is_outdated=False)


def keys_written_late() -> contextlib.AbstractContextManager[Any]:
    """Write the keys of a lease that the host read before, perhaps before it was frozen."""
    return mock.patch.object(LeaseFollower, "_present_keys", lambda self: self._lease.keys)

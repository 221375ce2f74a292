"""Removed mechanisms of features: approvals and pauses of rollouts, leases of hosts, and rollouts of checks."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.checks import daemon as checks_daemon
from zkdeployment.checks.daemon import CheckHealth
from zkdeployment.checks.rules import workflow
from zkdeployment.checks.rules.monitoring_system import CheckResult
from zkdeployment.pools.host.leases import LeaseFollower
from zkdeployment.strategies import criteria, progress, timekeeping
from zkdeployment.strategies.criteria import HostHealth
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


def check_results_ignored() -> contextlib.AbstractContextManager[Any]:
    """Continue a rollout whatever the checks of its hosts report."""
    return mock.patch.object(CheckHealth, "read", return_value=HostHealth())


@contextlib.contextmanager
def unread_checks_are_healthy() -> Iterator[None]:
    """Take checks that a coordinator did not read for healthy ones."""
    deciding_health = checks_daemon.deciding_health

    def healthy(*arguments: Any) -> HostHealth:
        return deciding_health(*arguments) or HostHealth()

    with mock.patch.object(checks_daemon, "deciding_health", healthy):
        yield


def earlier_check_results_count() -> contextlib.AbstractContextManager[Any]:
    """Let the result of a check count that ran before the deployment, or with other details."""
    return mock.patch.multiple(CheckResult, is_newer=lambda *_: True, is_of=lambda *_: True)


def checks_before_services() -> contextlib.AbstractContextManager[Any]:
    """Roll out a check before its service is deployed."""
    return mock.patch.object(checks_daemon._Awaited, "is_reported", return_value=True)


@contextlib.contextmanager
def late_answers_count() -> Iterator[None]:
    """Let an answer count for the current configuration, whichever the monitoring system deployed."""
    answer = workflow.answer

    def of_any(instance: Any, *, config_id: str | None = None, **options: Any) -> Any:
        del config_id
        return answer(instance, **options)

    with mock.patch.object(workflow, "answer", of_any):
        yield


@contextlib.contextmanager
def checks_updated_in_place() -> Iterator[None]:
    """Roll out a configuration of a check although the one before it was not undeployed."""
    holds = workflow._holds

    def without_predecessors(guard: Any, *arguments: Any) -> Any:
        return guard is workflow.CheckGuard.PREDECESSOR_GONE or holds(guard, *arguments)

    with mock.patch.object(workflow, "_holds", without_predecessors):
        yield


@contextlib.contextmanager
def bake_times_ignored() -> Iterator[None]:
    """Judge a group as soon as all its hosts are done and healthy."""
    with (
        mock.patch.object(criteria, "baked", return_value=True),
        mock.patch.object(timekeeping, "baked", return_value=True),
    ):
        yield

"""Mechanisms taken out, and old defects put back: what the invariants have to find.

Each mutation is a context manager that changes the code under test during the block. ``MUTATIONS`` take out a
mechanism of safety; ``DEFECTS`` restore a behaviour that was mended, as a small patch.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from zkdeployment.adapters.zookeeper.client import session as session_module
from zkdeployment.adapters.zookeeper.client.transactions import Check, Delete, Set
from zkdeployment.adapters.zookeeper.operator import stops
from zkdeployment.adapters.zookeeper.publication import builder
from zkdeployment.daemons.agent.deployment_run import DeploymentRun
from zkdeployment.daemons.agent.steps.step_effects import StepEffects
from zkdeployment.planning.precedence.progress import OrderWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOCK = "zkdeployment.adapters.zookeeper.locks.service_locks.ZooKeeperServiceLock"
_SUPERVISION = "zkdeployment.daemons.agent.supervision.Supervision"


def no_lock_check() -> contextlib.AbstractContextManager[Any]:
    """Start scripts without a look at the lock, and leave no record of the work under it."""
    return mock.patch.multiple(_LOCK, begin=lambda _self, _step, _stamp: None, check_lease=lambda _self: None)


def _check_control(supervision: Any, changed: object = None, *, midway: bool = False) -> None:
    del changed, midway
    supervision._control.check()


def no_stop_check() -> contextlib.AbstractContextManager[Any]:
    """Continue a deployment whatever the cluster version says."""
    return mock.patch(f"{_SUPERVISION}._check_cluster", _check_control)


@contextlib.contextmanager
def no_compare_and_set() -> Iterator[None]:
    """Write whatever others wrote meanwhile."""
    send = session_module.send

    def blind(client: Any, operations: Any) -> Any:
        loose = [
            replace(operation, version=-1) if isinstance(operation, Set | Delete) else operation
            for operation in operations
            if not isinstance(operation, Check)
        ]
        return send(client, loose)

    with mock.patch.object(session_module, "send", blind):
        yield


@contextlib.contextmanager
def version_recorded_early() -> Iterator[None]:
    """Record the version before the steps."""
    run = DeploymentRun.run

    def early(self: Any) -> bool:
        self._reporting.deployment.succeed(self._supervision.revision, self._supervision.sequence)
        return run(self)

    with mock.patch.object(DeploymentRun, "run", early):
        yield


def version_not_given_up() -> contextlib.AbstractContextManager[Any]:
    """Let the recorded version stand while the host changes: after a rewind, half a host counts as whole."""
    return mock.patch(
        "zkdeployment.daemons.agent.reporting.deployment_status.DeploymentStatus.give_up_version",
        return_value=None,
    )


def role_lock_kept() -> contextlib.AbstractContextManager[Any]:
    """Let a host whose failure is tolerated keep its role's lock, and set no deadline for phases."""
    stack = contextlib.ExitStack()
    stack.enter_context(
        mock.patch("zkdeployment.daemons.agent.rollout_gate.RolloutGate._hand_on_role", return_value=None)
    )
    stack.enter_context(mock.patch("zkdeployment.rollout.timekeeping.PROGRESS_DEADLINE", float("inf")))
    return stack


def new_tops_not_listed() -> contextlib.AbstractContextManager[Any]:
    """Begin a large publication without a list of its new top-level nodes."""
    return mock.patch.object(builder, "made_tops", return_value=frozenset())


def imports_unseen() -> contextlib.AbstractContextManager[Any]:
    """Read the tree for a version set by hand without a look at imports that come between."""
    module = "zkdeployment.adapters.zookeeper.publication.assignments"
    return mock.patch(f"{module}._changed", return_value=None)


def order_ignored() -> contextlib.AbstractContextManager[Any]:
    """Let no deployment wait for another service, and no undeployment for the hosts that gain the service."""
    return mock.patch(
        "zkdeployment.daemons.agent.steps.ordered_steps.order_wait", lambda path, *_, **__: OrderWait(path)
    )


def properties_ignored() -> contextlib.AbstractContextManager[Any]:
    """Let services with ``rerun = 'changed'`` run again for another assignment only, not for other properties."""
    return mock.patch("zkdeployment.planning.targets.compiler.properties_digest", return_value="0" * 64)


def signatures_ignored() -> contextlib.AbstractContextManager[Any]:
    """Believe statements that no publisher signed, whatever targets they name."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch("simulation.signatures.SimulatedPublishers.verify", return_value=None))
    stack.enter_context(mock.patch("zkdeployment.daemons.agent.trusted_publications.check_snapshot"))
    return stack


def old_publications_believed() -> contextlib.AbstractContextManager[Any]:
    """Let hosts with publishers act on what was signed once, however old it is."""
    return mock.patch("zkdeployment.daemons.agent.trusted_publications.Watermark.check", return_value=None)


def verified_properties_ignored() -> contextlib.AbstractContextManager[Any]:
    """Hand the properties in ZooKeeper to scripts without a look at what was signed."""
    return mock.patch("zkdeployment.daemons.agent.trusted_publications.check_properties")


@contextlib.contextmanager
def ending_skipped() -> Iterator[None]:
    """Record a version although the last script of the role's controller has not run."""
    run = StepEffects._run_controller

    def skipping(self: Any, step: Any) -> None:
        if step.kind == "starting-deployments":
            run(self, step)

    with mock.patch.object(StepEffects, "_run_controller", skipping):
        yield


def failure_not_kept() -> contextlib.AbstractContextManager[Any]:
    """Keep a failure in memory only, until ZooKeeper has it."""
    module = "zkdeployment.daemons.agent.reporting.failure_reporter.FailureReporter"
    return mock.patch.multiple(module, _keep=lambda _self, _failure: None, restore=lambda _self: None)


@contextlib.contextmanager
def stops_uncompared() -> Iterator[None]:
    """Forget the stops of a fleet that is resumed without a look at stops recorded meanwhile."""
    forgetting = stops.forgetting_stops

    def loose(recorded: Any) -> list[Any]:
        return [operation for operation in forgetting(recorded) if isinstance(operation, Delete)]

    control = "zkdeployment.adapters.zookeeper.operator.cluster_control.forgetting_stops"
    with mock.patch(control, loose), mock.patch.object(builder, "forgetting_stops", loose):
        yield


@dataclass(frozen=True)
class Mutation:
    """A change of the code under test, and the seeds that find it: their theme, and the first of them to try."""

    change: Callable[[], contextlib.AbstractContextManager[Any]]
    theme: str
    first: int = 1


MUTATIONS = {
    "no lock check": Mutation(no_lock_check, "order", first=8),
    "no stop check": Mutation(no_stop_check, "mixed"),
    "no compare-and-set": Mutation(no_compare_and_set, "stops", first=4),
    "version recorded early": Mutation(version_recorded_early, "mixed"),
    "order between services ignored": Mutation(order_ignored, "order"),
    "the end of a role's bracket is skipped": Mutation(ending_skipped, "strategies"),
    "signatures ignored": Mutation(signatures_ignored, "attacks"),
    "old publications believed": Mutation(old_publications_believed, "attacks"),
    "properties not verified": Mutation(verified_properties_ignored, "attacks", first=30),
    "changed properties ignored": Mutation(properties_ignored, "order"),
}

DEFECTS = {
    "the version stands while the host changes": Mutation(version_not_given_up, "mixed"),
    "a tolerated failure keeps the role's lock": Mutation(role_lock_kept, "strategies", first=9),
    "an unfinished publication leaves its services": Mutation(new_tops_not_listed, "publications", first=11),
    "an import mixes two trees": Mutation(imports_unseen, "imports", first=6),
    "a failure is lost during an outage": Mutation(failure_not_kept, "outages", first=19),
    "a stop survives a resume": Mutation(stops_uncompared, "stops"),
}

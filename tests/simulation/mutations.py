"""Removed mechanisms and restored defects, which the invariants have to find.

Each mutation is a context manager that changes the code under test during the block. ``MUTATIONS`` take out a
mechanism of safety; ``DEFECTS`` restore a behaviour that was mended, as a small patch. Random seeds find both; the
search of a small fleet finds ``SEARCHED``.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from kazoo.exceptions import NoAuthError

from simulation.feature_mutations import (
    approvals_ignored,
    bake_times_ignored,
    check_results_ignored,
    checks_before_services,
    checks_updated_in_place,
    earlier_check_results_count,
    grants_of_other_publications,
    keys_written_late,
    late_answers_count,
    leases_unread,
    pauses_ignored,
    unread_checks_are_healthy,
)
from simulation.group_stops import unguarded_wait
from zkdeployment.agent.daemon import deployment, plans
from zkdeployment.agent.daemon.agent import AgentCycle
from zkdeployment.agent.daemon.deployment import DeploymentRun
from zkdeployment.agent.rules import planner
from zkdeployment.agent.rules.waiting import OrderProgress, OrderWait
from zkdeployment.agent.scripts import ScriptRunner
from zkdeployment.agent.steps import reboots, step_effects
from zkdeployment.agent.steps.reboots import HostReboots
from zkdeployment.agent.steps.step_effects import StepEffects
from zkdeployment.agent.store import fleet as agent_fleet
from zkdeployment.agent.store import role_locks
from zkdeployment.agent.store.fleet import ZooKeeperFleet
from zkdeployment.agent.store.registration import HostRegistration
from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
from zkdeployment.agent.store.service_orders import PublicationOrder, ZooKeeperAwaitedService
from zkdeployment.base import cluster as base_cluster
from zkdeployment.base.cluster import Cluster, ClusterEvent, Mandate
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import ScriptError
from zkdeployment.base.machine.reboots import SystemState
from zkdeployment.base.plan import Plan
from zkdeployment.base.publication import OrderEntry, Published
from zkdeployment.fleet.store import cluster_control
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.publishing.store import builder, cluster, sections
from zkdeployment.publishing.store import reboots as reboot_records
from zkdeployment.publishing.store.reboots import recording_reboot
from zkdeployment.rollouts import daemon as coordinator
from zkdeployment.rollouts import measuring
from zkdeployment.rollouts.store import ZooKeeperRollouts
from zkdeployment.strategies import group_analysis, phases
from zkdeployment.strategies.criteria import HEALTHY_CHECKS, Judgement
from zkdeployment.strategies.group_analysis import METRICS
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper import session as session_module
from zkdeployment.zookeeper.transactions import Check, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOCK = "zkdeployment.agent.store.service_locks.ZooKeeperServiceLock"
_SUPERVISION = "zkdeployment.agent.daemon.deployment.Supervision"


def no_lock_check() -> contextlib.AbstractContextManager[Any]:
    """Start scripts without a check of the lock and without a record of the work under it."""
    return mock.patch.multiple(_LOCK, begin=lambda *_: None, check_lease=lambda _self: None)


def _check_control(supervision: Any, changed: object = None, *, midway: bool = False) -> None:
    del changed, midway
    supervision._reporting.control.check()


def no_stop_check() -> contextlib.AbstractContextManager[Any]:
    """Continue a deployment at any cluster version."""
    return mock.patch(f"{_SUPERVISION}._check_cluster", _check_control)


@contextlib.contextmanager
def no_compare_and_set() -> Iterator[None]:
    """Write without a check of the writes of other clients."""
    send = session_module.send

    def blind(client: Any, operations: Any) -> Any:
        loose = [_unchecked(operation) for operation in operations if not isinstance(operation, Check)]
        return send(client, loose)

    with mock.patch.object(session_module, "send", blind):
        yield


def _unchecked(operation: Operation) -> Operation:
    """Return an operation that succeeds at any version of its node."""
    match operation:
        case Set(path, data):
            return Set(path, data)
        case Delete(path):
            return Delete(path)
    return operation


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
    """Keep the recorded version while the host changes: after a rewind, half a deployment counts as whole."""
    return mock.patch(
        "zkdeployment.agent.reporting.host_reporting.DeploymentStatus.give_up_version",
        return_value=None,
    )


def role_lock_kept() -> contextlib.AbstractContextManager[Any]:
    """Let a host whose failure is tolerated keep its role's lock, and set no deadline for phases."""
    stack = contextlib.ExitStack()
    stack.enter_context(
        mock.patch("zkdeployment.agent.daemon.deployment.RolloutGate._hand_on_locks", return_value=None)
    )
    stack.enter_context(mock.patch("zkdeployment.strategies.timekeeping.PROGRESS_DEADLINE", float("inf")))
    return stack


def new_tops_not_listed() -> contextlib.AbstractContextManager[Any]:
    """Begin a large publication without a list of its new top-level nodes."""
    return mock.patch.object(sections, "made_tops", return_value=frozenset())


def imports_unseen() -> contextlib.AbstractContextManager[Any]:
    """Read the tree for a version set by hand without a check for imports in between."""
    module = "zkdeployment.publishing.store.assignments"
    return mock.patch(f"{module}._changed", return_value=None)


def order_ignored() -> contextlib.AbstractContextManager[Any]:
    """Let no deployment wait for another service, and no undeployment for the hosts that gain the service."""
    return mock.patch("zkdeployment.agent.steps.awaiting_steps.order_wait", lambda path, *_, **__: OrderWait(path))


def properties_ignored() -> contextlib.AbstractContextManager[Any]:
    """Let services with ``rerun = 'changed'`` run again for another assignment only, not for other properties."""
    return mock.patch("zkdeployment.publishing.targets.properties.properties_digest", return_value="0" * 64)


def signatures_ignored() -> contextlib.AbstractContextManager[Any]:
    """Trust statements that no publisher signed, with any targets."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch("simulation.signatures.SimulatedPublishers.verify", return_value=None))
    stack.enter_context(mock.patch("zkdeployment.agent.daemon.trusted_publications.check_snapshot"))
    return stack


def old_publications_believed() -> contextlib.AbstractContextManager[Any]:
    """Let hosts with publishers act on signed publications of any age."""
    return mock.patch("zkdeployment.agent.daemon.trusted_publications.Watermark.check", return_value=None)


def verified_properties_ignored() -> contextlib.AbstractContextManager[Any]:
    """Pass the properties in ZooKeeper to scripts without a check of the signed ones."""
    return mock.patch("zkdeployment.agent.daemon.trusted_publications.check_properties")


@contextlib.contextmanager
def forged_nodes_believed() -> Iterator[None]:
    """Let hosts with publishers adopt the version in a node that zc.zkdeployment could have left."""
    register = HostRegistration.register

    def believing(self: Any, host: Any, *, adopt: bool = False, patient: bool = True) -> Any:
        del adopt
        return register(self, host, adopt=self._identity is None, patient=patient)

    with mock.patch.object(HostRegistration, "register", believing):
        yield


def installed_repositories_used() -> contextlib.AbstractContextManager[Any]:
    """Update a copy of the installed checkout, with its repository, as agents once did."""

    def prepare(self: Any, package: str, renew: Any) -> Any:
        place, copy = self.root / "opt" / package, self.root / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        if place.exists():
            shutil.copytree(place, copy, symlinks=True)
        renew(copy)
        return copy

    return mock.patch("zkdeployment.agent.checkouts.working_copies.PristineCopies.prepare", prepare)


def names_before_commits() -> contextlib.AbstractContextManager[Any]:
    """Let tags and branches that are named like a commit take precedence over the commit."""
    return mock.patch("zkdeployment.agent.checkouts.repositories.is_commit", return_value=False)


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
    module = "zkdeployment.agent.reporting.failures.FailureReporter"
    return mock.patch.multiple(module, _keep=lambda _self, _failure: None, restore=lambda _self: None)


def obsolete_failures_stop() -> contextlib.AbstractContextManager[Any]:
    """Stop the fleet because of a failure, also if it has another publication by now."""
    return mock.patch("zkdeployment.base.publication.Published.is_wanted", return_value=True)


@contextlib.contextmanager
def former_roles_kept() -> Iterator[None]:
    """Let a host leave only the queue of the role that it has, and only its mark in that role."""

    def of_role(session: Any, identity: Any) -> list[Any]:
        return role_locks.requests_of(session, identity.id, [identity.role] if identity.role else [])

    def leave(self: Any, identity: Any) -> list[str]:
        for request in of_role(self.session, identity):
            self.session.commit(Delete(request.path))
        path = paths.out_of_service_path(identity.id)
        mark = self.session.get(path)
        if mark is not None and mark.properties.get("role") == identity.role:
            self.session.commit(Delete(path))
        return []

    original = role_locks.RoleRequests.hand_on

    def hand_on(self: Any, identity: Any, *, former: bool = False) -> list[str]:
        return [] if former else original(self, identity)

    with mock.patch.multiple(role_locks.RoleRequests, leave=leave, hand_on=hand_on):
        yield


@contextlib.contextmanager
def stops_uncompared() -> Iterator[None]:
    """Forget the stops of a fleet that is resumed without a check for stops recorded meanwhile."""
    forgetting = cluster.forgetting_stops

    def loose(recorded: Any) -> list[Any]:
        return [operation for operation in forgetting(recorded) if isinstance(operation, Delete)]

    control = "zkdeployment.fleet.store.cluster_control.forgetting_stops"
    with mock.patch(control, loose), mock.patch.object(sections, "forgetting_stops", loose):
        yield


def orphans_unprotected() -> contextlib.AbstractContextManager[Any]:
    """Let only the lock delay protect a script whose agent was killed and waits for it."""
    return mock.patch("zkdeployment.agent.store.registration.keep_works", return_value=[])


@contextlib.contextmanager
def cut_off_work_released() -> Iterator[None]:
    """Release the lock of a service when an agent that has to end cuts its script off."""
    with mock.patch(f"{_LOCK}.keep", ZooKeeperServiceLock.release):
        yield


@contextlib.contextmanager
def missing_order_ends_waits() -> Iterator[None]:
    """Take a missing entry of an order for one that all hosts have finished."""
    progress = ZooKeeperAwaitedService.progress

    def loose(self: Any) -> OrderProgress:
        if self._session.get(self._path) is None:
            return OrderProgress(OrderEntry())
        return progress(self)

    with (
        mock.patch.object(ZooKeeperAwaitedService, "progress", loose),
        mock.patch.object(PublicationOrder, "check_current"),
    ):
        yield


@contextlib.contextmanager
def revision_counts_as_publication() -> Iterator[None]:
    """Let a host that has the revision take part in the order of its next publication, but follow nothing else."""
    compare = AgentCycle._compare

    def blind(self: Any, revision: Any, published: Any, gate: Any) -> Any:
        host = self._reporting.host
        if revision != host.version or host.has_reached(published.effective_since):
            return compare(self, revision, published, gate)
        identity, sequence = host.identity, published.effective_since
        if published.revision == revision:
            wanted = plans._wanted(self._adapters, identity, revision)
            plans._take_part(self._adapters, identity, wanted, Plan(), sequence)
        return compare(self, revision, Published(), gate)

    with mock.patch.object(AgentCycle, "_compare", blind):
        yield


def identity_ignored() -> contextlib.AbstractContextManager[Any]:
    """Do not run services with ``rerun = 'changed'`` again after the host got another name or role."""
    plan = plans.plan
    return mock.patch.object(plans, "plan", lambda *wanted, **facts: plan(*wanted, **facts | {"identity": None}))


def recovery_of_the_last_publication_only() -> contextlib.AbstractContextManager[Any]:
    """Roll back a failed rollout only if its revision was not published again while it was under way."""
    pending = coordinator.is_recovery_pending

    def strict(snapshot: Any) -> bool:
        state = snapshot.state
        return pending(snapshot) and state is not None and state.sequence == snapshot.published.sequence

    return mock.patch.object(coordinator, "is_recovery_pending", strict)


def metrics_ignored() -> contextlib.AbstractContextManager[Any]:
    """Let groups succeed by their hosts alone: metrics are measured and decide nothing."""
    measured = METRICS._replace(judge=lambda *_: Judgement())
    return mock.patch.object(phases, "CRITERIA", (HEALTHY_CHECKS, measured))


@contextlib.contextmanager
def gaps_measured() -> Iterator[None]:
    """Ask for the newest measurement after a gap, as if the time without a coordinator counted."""

    def note(state: Any, active: Any, facts: Any) -> Any:
        metrics = {metric.name: metric for metric in state.rollout.strategy.group(active.task.group).pace.analysis}
        answers = facts.outside.get(group_analysis.ANALYSIS, {})
        for key in answers if active.baking_since is not None else ():
            if key.number is not None and key.metric in metrics and key.group in state.analyses:
                before = state.analyses[key.group]
                after = group_analysis._with_measurement(before, metrics[key.metric], key.number, answers[key])
                if after is not before:
                    state = replace(state, analyses={**state.analyses, key.group: after})
        return METRICS.note(state, active, facts)

    def is_open(state: Any, key: Any, answer: Any) -> bool:
        return group_analysis.is_open(state, key, replace(answer, asked=float("inf")))

    with (
        mock.patch.object(group_analysis, "note_coordination", lambda state, _now: state),
        mock.patch.object(measuring, "is_open", is_open),
        mock.patch.object(phases, "CRITERIA", (HEALTHY_CHECKS, METRICS._replace(note=note))),
    ):
        yield


@contextlib.contextmanager
def deployments_outlive_retries() -> Iterator[None]:
    """Let a deployment that began with a retry continue without a grant when the fleet is resumed."""
    same = mock.patch.object(Mandate, "__eq__", lambda self, other: other and self.revision == other.revision)
    with same, deployments_outlive_publications():
        yield


def deployments_outlive_publications() -> contextlib.AbstractContextManager[Any]:
    """Let a deployment that began without a grant continue when the revision is published again."""
    return mock.patch(f"{_SUPERVISION}._check_ungranted")


def withheld_plans_need_no_grant() -> contextlib.AbstractContextManager[Any]:
    """Let a host end its deployment without a grant if all its steps are withheld, as if it had nothing to do."""
    return mock.patch.object(deployment, "is_settled", lambda plan: not plan.steps)


def given_up_revisions_unnoticed() -> contextlib.AbstractContextManager[Any]:
    """Let a host that had the revision before it was published again count as done, whatever it lacks."""
    return mock.patch.object(ZooKeeperRollouts, "_outdated", return_value=frozenset())


def failures_stop_resumed_fleets() -> contextlib.AbstractContextManager[Any]:
    """Let the failure of a retried host stop the fleet, although a rollout judges the host since the resume."""
    return mock.patch.object(ZooKeeperFleet, "resumed_part", return_value=None)


def retries_outlive_hands() -> contextlib.AbstractContextManager[Any]:
    """Let a retry outlive a version that is set by hand, as if its record did not name the stop."""
    read = base_cluster._retry
    named = mock.Mock(side_effect=lambda value, _stamp: read(value, value.get("stamp")) if value else None)
    return mock.patch.object(base_cluster, "_retry", named)


@contextlib.contextmanager
def imports_ignore_retries() -> Iterator[None]:
    """Import a small tree by hand without a look at ``/hosts``, where an operator may order a retry meanwhile."""
    transactions = builder.import_transactions

    def loose(*arguments: Any) -> Any:
        made = transactions(*arguments)
        return [[one for one in each if one.path != paths.HOSTS] for each in made] if len(made) == 1 else made

    with mock.patch.object(builder, "import_transactions", loose):
        yield


def retries_outlive_successes() -> contextlib.AbstractContextManager[Any]:
    """Let a retry permit further deployments after its success."""
    return mock.patch.object(ZooKeeperFleet, "complete_retry")


@contextlib.contextmanager
def retries_outlive_stops() -> Iterator[None]:
    """Let a retry outlive the next failure of its host, and the stop by an operator."""

    def leaving(changing: Any) -> Any:
        def change(hosts: Any, event: Any, *further: Any) -> Any:
            if event is ClusterEvent.STOP and hosts is not None and "retry" in hosts.properties:
                return Check(paths.HOSTS, hosts.version)
            return changing(hosts, event, *further)

        return change

    with (
        mock.patch.object(agent_fleet, "changing_cluster", leaving(agent_fleet.changing_cluster)),
        mock.patch.object(cluster_control, "changing_cluster", leaving(cluster_control.changing_cluster)),
    ):
        yield


def retries_for_all() -> contextlib.AbstractContextManager[Any]:
    """Let every host of a stopped fleet follow the retry of one host."""

    mandate = Cluster.mandate

    def of_all(self: Any, host_id: str) -> Any:
        return mandate(self, host_id if self.retry is None else self.retry.host)

    return mock.patch.object(Cluster, "mandate", of_all)


def retries_forget_stops() -> contextlib.AbstractContextManager[Any]:
    """Let a retry forget the stops on record."""
    retry = ZooKeeperClusterControl.retry

    def forgetting(self: Any, host_id: str, act: Any) -> Any:
        revision = retry(self, host_id, act)
        stops = self._session.children(paths.STOPS)
        self._session.commit(*(Delete(f"{paths.STOPS}/{name}") for name in stops))
        return revision

    return mock.patch.object(ZooKeeperClusterControl, "retry", forgetting)


def errors_end_waits() -> contextlib.AbstractContextManager[Any]:
    """Let any error beside a running script, such as a full disk, end the wait for the script."""
    return mock.patch("zkdeployment.agent.scripts.wait_for_end", unguarded_wait)


@contextlib.contextmanager
def software_of_stopped_groups_changes() -> Iterator[None]:
    """Remove patches, and put versions of the system back, although instances of stopped groups use them."""
    compare = planner.compare_software

    def loose(wanted: Any, inventory: Any, in_use: Any = None) -> Any:
        whole = compare(wanted, inventory)
        patches, put_back = whole.dropped_patches, whole.put_back
        return replace(compare(wanted, inventory, in_use), dropped_patches=patches, put_back=put_back)

    with mock.patch.object(planner, "compare_software", loose):
        yield


def groups_from_markers() -> contextlib.AbstractContextManager[Any]:
    """Let hosts know the group of a service that they should not have only from its marker."""
    return mock.patch.object(plans, "read_groups", return_value={})


def maintenance_ends_no_deployments() -> contextlib.AbstractContextManager[Any]:
    """Let a deployment that began before the maintenance of its host continue."""
    mandate = Cluster.mandate
    return mock.patch.object(Cluster, "mandate", lambda self, name: mandate(replace(self, maintenance={}), name))


@contextlib.contextmanager
def denials_unseen() -> Iterator[None]:
    """Take a transaction that ZooKeeper denied for one that it executed."""
    check = session_module.check_failures

    def blind(operations: Any, failures: Any) -> None:
        if not any(isinstance(failure, NoAuthError) for failure in failures):
            check(operations, failures)

    with mock.patch.object(session_module, "check_failures", blind):
        yield


def group_stops_ignored() -> contextlib.AbstractContextManager[Any]:
    """Run the steps of stopped groups."""
    return mock.patch("zkdeployment.agent.store.fleet.ZooKeeperFleet.stopped_groups", return_value=frozenset())


@contextlib.contextmanager
def reboots_unlocked() -> Iterator[None]:
    """Reboot without keeping the lock for the host beyond its session."""

    def publish(self: Any, record: Any, _lock: Any) -> None:
        self._adapters.session.commit(*recording_reboot(self._adapters.session, record))

    with (
        mock.patch.object(HostReboots, "_publish", publish),
        mock.patch.object(ZooKeeperServiceLock, "keep", ZooKeeperServiceLock.release),
    ):
        yield


def reboots_unrecorded() -> contextlib.AbstractContextManager[Any]:
    """Reboot without a record in ZooKeeper."""
    return mock.patch.object(reboots, "recording_reboot", return_value=[])


def reboots_endless() -> contextlib.AbstractContextManager[Any]:
    """Report no host that does not come back from its reboot."""
    return mock.patch("zkdeployment.publishing.store.reboots.RebootRecord.is_due", return_value=False)


@contextlib.contextmanager
def reboots_expire_without_stop() -> Iterator[None]:
    """Mark the record of a host that does not come back, without an effect on the fleet."""
    expiring = reboot_records._expiring

    def marking(*arguments: Any) -> Any:
        made = expiring(*arguments)
        return None if made is None else made[:1]

    with mock.patch.object(reboot_records, "_expiring", marking):
        yield


@contextlib.contextmanager
def restarts_count_as_boots() -> Iterator[None]:
    """Take each start of the agent for a boot of the machine."""
    booted = SystemState.booted
    with mock.patch.object(SystemState, "booted", lambda self, _boot_id: booted(self, "another boot")):
        yield


def reboots_unlimited() -> contextlib.AbstractContextManager[Any]:
    """Reboot as often as a step asks for it."""
    return mock.patch.object(reboots, "MAX_REBOOTS", 1000)


def updates_without_reboots() -> contextlib.AbstractContextManager[Any]:
    """Complete a system node without the reboot that it needs."""
    return mock.patch.object(step_effects, "must_reboot", return_value=False)


def system_nodes_look_like_services() -> contextlib.AbstractContextManager[Any]:
    """Publish system nodes as services without instances, which agents of any version accept."""

    def of_system(system: Any, properties: Any = None) -> Assignment:
        return Assignment(system.path, 0, "os-1", "os", properties=properties, system=system)

    return mock.patch.object(Assignment, "of_system", of_system)


@contextlib.contextmanager
def logs_made_once() -> Iterator[None]:
    """Make the directory for the output of scripts only once."""
    output, made = ScriptRunner._output, set()

    def once(self: Any, name: str) -> Any:
        if self.logs in made and not self.logs.exists():
            raise ScriptError(f"{self.logs} does not exist")
        made.add(self.logs)
        return output(self, name)

    with mock.patch.object(ScriptRunner, "_output", once):
        yield


@dataclass(frozen=True)
class Mutation:
    """A change of the code under test, and the seeds that find it: their theme, and the first of them to try.

    A change of the program or of the simulation may change which seed finds it. ``scripts/simulate --mutations``
    shows that seed. Make it the first one: the searches took five times as long as everything else.
    """

    change: Callable[[], contextlib.AbstractContextManager[Any]]
    theme: str
    first: int = 1


MUTATIONS = {
    "no lock check": Mutation(no_lock_check, "order", first=22),
    "no stop check": Mutation(no_stop_check, "mixed", first=6),
    "no compare-and-set": Mutation(no_compare_and_set, "stops", first=7),
    "version recorded early": Mutation(version_recorded_early, "mixed"),
    "order between services ignored": Mutation(order_ignored, "order", first=10),
    "the end of a role's bracket is skipped": Mutation(ending_skipped, "strategies"),
    "signatures ignored": Mutation(signatures_ignored, "attacks", first=4),
    "old publications believed": Mutation(old_publications_believed, "attacks", first=11),
    "properties not verified": Mutation(verified_properties_ignored, "attacks", first=63),
    "changed properties ignored": Mutation(properties_ignored, "order", first=15),
    "failed metrics ignored": Mutation(metrics_ignored, "analyses", first=32),
    "the stop of a group is ignored": Mutation(group_stops_ignored, "group stops"),
    "the groups of a publication are ignored": Mutation(groups_from_markers, "group stops", first=50),
    "a host in maintenance begins a step": Mutation(maintenance_ends_no_deployments, "maintenance", first=2),
    "a reboot gives its lock away": Mutation(reboots_unlocked, "reboots"),
    "a reboot is not recorded": Mutation(reboots_unrecorded, "reboots"),
    "a host may reboot for ever": Mutation(reboots_endless, "reboots", first=7),
    "a host that does not come back stops nothing": Mutation(reboots_expire_without_stop, "reboots", first=9),
    "a restart of the agent counts as a boot": Mutation(restarts_count_as_boots, "reboots", first=56),
    "a host reboots again and again": Mutation(reboots_unlimited, "reboots", first=33),
    "an update needs no reboot": Mutation(updates_without_reboots, "reboots", first=2),
    "an older agent accepts system nodes": Mutation(system_nodes_look_like_services, "versions"),
    "a group begins without its approval": Mutation(approvals_ignored, "approvals"),
    "a paused rollout continues": Mutation(pauses_ignored, "approvals", first=5),
    "a grant of another publication counts": Mutation(grants_of_other_publications, "approvals", first=5),
    "a lost log directory fails the next script": Mutation(logs_made_once, "lost directories"),
    "a deployment ignores a changed lease": Mutation(leases_unread, "leases", first=4),
    "a frozen host admits keys of an earlier lease": Mutation(keys_written_late, "leases"),
    "a rollout ignores its checks": Mutation(check_results_ignored, "checks", first=5),
    "a rollout believes earlier results of checks": Mutation(earlier_check_results_count, "checks", first=7),
    "a group is judged before its bake time is over": Mutation(bake_times_ignored, "checks", first=12),
    "a check is rolled out before its service": Mutation(checks_before_services, "checks"),
    "a check is updated in place": Mutation(checks_updated_in_place, "checks"),
    "a late answer counts for the next configuration": Mutation(late_answers_count, "checks"),
    "a denied transaction counts as executed": Mutation(denials_unseen, "denials"),
    "a retry outlives stops": Mutation(retries_outlive_stops, "retries"),
    "all hosts follow a retry": Mutation(retries_for_all, "retries", first=5),
    "a retry forgets the stops": Mutation(retries_forget_stops, "retries"),
    "a retried host continues without a grant": Mutation(deployments_outlive_retries, "retries", first=21),
    "a retried host stops the resumed fleet": Mutation(failures_stop_resumed_fleets, "retries", first=75),
    "a retry outlives a version by hand": Mutation(retries_outlive_hands, "retries", first=117),
    "an import ignores a retry": Mutation(imports_ignore_retries, "retries", first=29),
    "a retry outlives its success": Mutation(retries_outlive_successes, "retries", first=3),
}

DEFECTS = {
    "the version stands while the host changes": Mutation(version_not_given_up, "mixed"),
    "a tolerated failure keeps the role's lock": Mutation(role_lock_kept, "strategies", first=63),
    "an unfinished publication leaves its services": Mutation(new_tops_not_listed, "publications", first=55),
    "an import mixes two trees": Mutation(imports_unseen, "imports", first=10),
    "a failure is lost during an outage": Mutation(failure_not_kept, "outages", first=86),
    "a stop survives a resume": Mutation(stops_uncompared, "stops"),
    "git runs in the repository of a service's user": Mutation(installed_repositories_used, "checkouts"),
    "a tag is taken for a commit": Mutation(names_before_commits, "checkouts"),
    "a host with publishers believes a forged node": Mutation(forged_nodes_believed, "attacks", first=4),
    "a host of another role keeps the lock of its former role": Mutation(former_roles_kept, "roles", first=3),
    "a repeated publication ends waits": Mutation(missing_order_ends_waits, "repetitions", first=12),
    "what is pruned stays on converged hosts": Mutation(revision_counts_as_publication, "repetitions", first=10),
    "another name or role of a host is ignored": Mutation(identity_ignored, "repetitions", first=25),
    "a repeated publication prevents the rollback": Mutation(
        recovery_of_the_last_publication_only, "rollbacks", first=4
    ),
    "a gap of the coordinator skips measurements": Mutation(gaps_measured, "analyses", first=27),
    "an obsolete failure stops the fleet": Mutation(obsolete_failures_stop, "outages", first=12),
    "a script that outlives its agent loses its lock": Mutation(orphans_unprotected, "restarts", first=4),
    "an error beside a script frees its lock": Mutation(errors_end_waits, "group stops", first=9),
    "the software of a stopped group changes": Mutation(
        software_of_stopped_groups_changes, "group stops", first=50
    ),
    "checks that no coordinator read are healthy": Mutation(unread_checks_are_healthy, "checks", first=11),
    "a terminated agent gives its half-done service away": Mutation(cut_off_work_released, "restarts", first=12),
}

#: Changes that come to light too seldom by chance. Each names the scenario whose search finds it.
SEARCHED = {
    "withheld steps need no grant": Mutation(withheld_plans_need_no_grant, "resumed groups"),
    "a host that gives the revision up counts as done": Mutation(given_up_revisions_unnoticed, "resumed groups"),
    "a resumed group continues without a grant": Mutation(
        deployments_outlive_publications, "resumed groups published again"
    ),
}

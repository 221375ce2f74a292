"""Reads the facts for a host's plan, and previews the plan for operators."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.lease import Lease, first_record
from zkdeployment.agent.rules.planner import is_settled, plan, unwanted_services
from zkdeployment.agent.rules.rebooting import reboot_reasons
from zkdeployment.agent.rules.system import SystemNeed
from zkdeployment.agent.rules.undeploying import leaving_services
from zkdeployment.agent.store.service_orders import PublicationOrder
from zkdeployment.base.cluster import INITIAL, Revision, held_reason
from zkdeployment.base.errors import PackageError, RefusedError
from zkdeployment.base.packages import Item, items
from zkdeployment.base.plan import Deploy, Plan, Reboot, UpdateSystem
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.store.assignments import read_groups, read_services
from zkdeployment.publishing.watermark import Watermark

if TYPE_CHECKING:
    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.base.deployment import DesiredState
    from zkdeployment.base.host import Identity


@dataclass(frozen=True)
class HostPlan:
    """The plan of a host, and its part in the order between services of a publication.

    ``sequence`` is that of the publication, 0 for a version that was set by hand, which has no order. ``awaited``
    are the services that the plan deploys and for which other hosts wait. With ``ignores_failures`` the host does
    not wait for hosts that failed.
    """

    plan: Plan
    sequence: int
    awaited: frozenset[str] = frozenset()
    ignores_failures: bool = False


def read_plan(
    adapters: AgentAdapters,
    identity: Identity,
    revision: Revision,
    *,
    sequence: int,
    leasable: bool,
    has_revision: bool = False,
) -> HostPlan:
    """Recover from interrupted software changes and return the host's plan for ``revision``.

    ``sequence`` is that of the publication that concerns hosts, 0 for a version that was set by hand. No other
    host waits for a host that is ``leasable``. If the host ``has_revision`` from an earlier publication, the plan
    is empty unless it would change something. On a host with publishers, the verified properties of its services
    are written for the scripts.
    """
    wanted = _wanted(adapters, identity, revision)
    with adapters.notifier.uninterrupted():
        adapters.packages.recover()
        adapters.checkouts.recover()
    made = make_plan(adapters, identity, wanted, 0 if leasable else sequence)
    if has_revision and is_settled(made):
        made = Plan()
    if not sequence or leasable:
        return HostPlan(made, sequence, ignores_failures=leasable)
    return HostPlan(made, sequence, _take_part(adapters, identity, wanted, made, sequence))


def _wanted(adapters: AgentAdapters, identity: Identity, revision: Revision) -> DesiredState:
    """Return the state that the host should have; on a host with publishers, from the signed publication.

    Such a host remembers the publication before it acts on it, and writes the verified properties of its services
    for its scripts.
    """
    trusted = adapters.trusted
    if trusted is None:
        return adapters.fleet.wanted(identity, revision)
    targets = trusted.targets(identity, revision)
    trusted.remember(targets.published)
    trusted.write_properties(targets)
    return targets.wanted


def _take_part(
    adapters: AgentAdapters, identity: Identity, wanted: DesiredState, made: Plan, sequence: int
) -> frozenset[str]:
    """Join the order between services, and return the awaited services that the plan ``made`` deploys.

    Awaited services that the plan does not deploy again are recorded as deployed.
    """
    paths = [assignment.path for assignment in wanted.assignments if assignment.n]
    order = PublicationOrder(adapters.session, sequence)
    entries = order.entries(paths)
    deployed = {step.deployment.path for step in made.steps if isinstance(step, Deploy)}
    lacking = frozenset().union(*made.withheld.values())
    for path, entry in entries.items():
        if identity.id not in entry.hosts:
            order.join(path, identity.id)
        if path not in deployed | lacking:
            order.finish(path, identity.id)
    return frozenset(entries.keys() & deployed)


def make_plan(adapters: AgentAdapters, identity: Identity, wanted: DesiredState, sequence: int) -> Plan:
    """Return the plan of a host, without the steps of stopped groups.

    ``sequence`` names the order in which the host undeploys services (0: no order).
    """
    inventory = adapters.inventory()
    leaving = leaving_services(wanted.assignments, inventory) if sequence else frozenset()
    entries = PublicationOrder(adapters.session, sequence).entries(leaving) if leaving else {}
    lasting = [path for path, entry in entries.items() if entry.gaining]
    unwanted = unwanted_services(wanted.assignments, inventory)
    make = partial(
        plan,
        wanted.assignments,
        inventory,
        wanted.controller,
        identity=identity,
        services=read_services(adapters.session, unwanted),
        lasting=lasting,
        groups=read_groups(adapters.session, unwanted),
        system=SystemNeed(wanted.system, adapters.system.state(), adapters.system.may_reboot),
    )
    made = make()
    stopped = made.groups & adapters.fleet.stopped_groups() if made.groups else frozenset()
    return make(stopped=stopped) if stopped else made


@dataclass(frozen=True)
class PlanPreview:
    """The plan that an agent would execute for the cluster version.

    ``changes`` are the packages that the update of the operating system changes, ``reasons`` those that ask for a
    reboot after it. ``problem`` is why the update is impossible; empty if it is possible.
    """

    revision: Revision
    plan: Plan
    changes: tuple[Item, ...] = ()
    reasons: tuple[str, ...] = ()
    problem: str = ""


def preview(adapters: AgentAdapters, identity: Identity, *, leasable: bool) -> PlanPreview:
    """Return the plan that an agent would execute, with the effect on the operating system; change nothing.

    ``leasable`` is whether leases decide the role of the host; without a lease the host has the role of its
    ``identity``. Raises ``RefusedError`` if the fleet is stopped or held.
    """
    revision, made = _preview_steps(adapters, identity, leasable=leasable)
    updates = [step.change for step in made.steps if isinstance(step, UpdateSystem)]
    if not updates and not any(isinstance(step, Reboot) for step in made.steps):
        return PlanPreview(revision, made)
    before = adapters.packages.installed()
    after = before
    try:
        for change in updates:
            after = adapters.packages.preview_system(change)
    except PackageError as error:
        return PlanPreview(revision, made, problem=str(error))
    changes, facts = items(before, after), adapters.system.facts(adapters.packages)
    if facts.changed is not None:
        changed = facts.changed.union(item.name for item in changes if item.after is not None)
        facts = replace(facts, changed=changed)
    return PlanPreview(revision, made, changes, reboot_reasons(facts))


def _preview_steps(adapters: AgentAdapters, identity: Identity, *, leasable: bool) -> tuple[Revision, Plan]:
    published = adapters.fleet.published()
    if adapters.trusted is None:
        Watermark(adapters.run.published).check(published)
    cluster = adapters.fleet.cluster(identity)
    mandate = None if cluster is None else cluster.mandate(identity.id)
    if mandate is None or not published.permits(mandate):
        raise RefusedError(f"nothing starts: {held_reason(cluster, identity.id)}")
    revision = mandate.revision
    host = adapters.run.read_host(identity)
    has_role = True
    if leasable and identity.role is not None:
        lease = adapters.lease(identity, remembers=False) or Lease(identity.role, 0)
        record = first_record(adapters.run.lease.load(), identity.role, has_version=host.version is not None)
        has_role = record.is_reached and record.lease.role == lease.role
        identity = replace(identity, role=lease.role)
    if adapters.trusted is not None:
        adapters.trusted.published(identity, revision)
    has_revision = revision == host.version and has_role
    is_new = published.revision == revision and published.effective_since > (host.sequence or 0)
    is_resumed = bool(host.lacking) and not host.lacking.keys() <= adapters.fleet.stopped_groups()
    if revision == INITIAL or (has_revision and not (is_new or is_resumed)):
        return revision, Plan()
    if adapters.trusted is None:
        wanted = adapters.fleet.wanted(identity, revision)
    else:
        wanted = adapters.trusted.targets(identity, revision).wanted
    has_order = published.revision == revision and not leasable
    made = make_plan(adapters, identity, wanted, published.effective_since if has_order else 0)
    return revision, Plan() if has_revision and not host.lacking and is_settled(made) else made

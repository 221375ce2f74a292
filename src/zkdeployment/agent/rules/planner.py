"""The planner: the steps from a host's inventory to its wanted assignments, in the order of their execution.

Plans have no memory. A step that a crash interrupted shows in the inventory, and the next plan completes it. The
other modules of this folder decide each step. The planner decides the order of the steps, and withholds the steps
of stopped deployment intent groups.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.software import (
    BUILD_AGAIN,
    NOT_ENDED,
    RECORD_MISSING,
    RUN_AGAIN,
    SoftwareDifference,
    WantedSoftware,
    change_packages,
    check_out,
    compare_software,
    reinstall_scripts,
    remove_checkout,
    remove_software,
    software_of,
)
from zkdeployment.agent.rules.system import SystemNeed, originals_after, system_steps
from zkdeployment.agent.rules.undeploying import (
    EndingDeployments,
    end_deployments,
    groups_of_services,
    markers_by_deployment,
    reason_to_run,
    unchanged_deployments,
    without_record,
    without_software_of,
)
from zkdeployment.base.plan import (
    CheckOut,
    Deploy,
    EndDeployments,
    Plan,
    StartDeployments,
    Step,
    Undeploy,
    UpdateSystem,
    group_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment, Deployment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory


def plan(  # noqa: PLR0913  the facts of the host, of the tree and of the fleet
    wanted: Sequence[Assignment],
    inventory: Inventory,
    controller: Assignment | None = None,
    *,
    identity: Identity | None = None,
    services: Collection[str] = (),
    lasting: Collection[str] = (),
    groups: Mapping[str, str] = MappingProxyType({}),
    stopped: Collection[str] = (),
    system: SystemNeed | None = None,
) -> Plan:
    """Return the steps from a host's inventory to the ``wanted`` assignments, each with its reason.

    ``wanted`` is free of conflicts, which ``publishing.targets`` has checked. The order is: undeploy, one package
    transaction, renew all checkouts, run all wanted deployments, remove unneeded software. Unchanged deployments
    with ``rerun = 'changed'`` are not run, and a checkout that only these use is not renewed. The plan changes
    only packages that are wanted, that are registered as managed, or that own the deploy script under their name.
    The agent's own package may be wanted, but is never removed.

    ``controller`` is the role controller. The controller is updated first, and its scripts run before and after
    all other steps except the undeployments. If no deployment changes, its scripts run only if the last
    ``starting-deployments`` on this host, perhaps of a former controller, was not followed by a successful
    ``ending-deployments``.

    ``system`` is what the host needs of its system node. The operating system is updated, and the host reboots,
    before all other steps; with a controller, after its ``starting-deployments``. Packages in the scope of the
    update do not get their versions from before the update back.

    ``identity`` is that of the host: scripts get it, so that another id, name or role is a change. Without it,
    identities are not compared.

    ``services`` are the paths of services that the tree still has, perhaps for other hosts only; the plan uses
    those in ``unwanted_services``. Their deployments are undeployed under their locks, after the deployments
    of services that left the tree. ``lasting`` are the paths of services that other hosts gain: this host
    undeploys them after the deployments and the controller's scripts, before software is removed. ``groups`` are
    the groups of services in ``unwanted_services``, by path, as far as the publication has them.

    ``stopped`` are the stopped groups, whose steps are withheld. If there are such steps, the plan is that of the
    other services: it installs and changes their software only, removes no software, and gives no package its
    original version back, because the instances of the stopped groups still use what the host has.

    Raises ``HostFilesError`` if the host has two controllers, if deployments occupy the controller's directory,
    or if the script of an undeployment is lost and cannot be reinstalled.
    """
    locked = {assignment.path for assignment in wanted}.union(services)
    group_of_service = groups_of_services(wanted, inventory, groups)
    software = WantedSoftware.of(wanted, controller, identity)
    originals = inventory.originals
    system_first = () if system is None else tuple(system_steps(system, software.kept(inventory), originals))
    inventory = replace(inventory, originals=_originals_after(system_first, originals))
    whole = _plan(compare_software(software, inventory), locked, lasting, group_of_service, system_first)
    withheld = _withheld(whole.steps, stopped)
    if not withheld:
        return whole
    theirs = {path for path, group in group_of_service.items() if group in stopped}
    software = WantedSoftware.of([one for one in wanted if one.path not in theirs], controller, identity)
    have = replace(inventory, markers=tuple(one for one in inventory.markers if one.deployment.path not in theirs))
    difference = compare_software(software, have, software_of(theirs, wanted, inventory))
    return replace(_plan(difference, locked, lasting, group_of_service, system_first), withheld=withheld)


def _originals_after(steps: Iterable[Step], originals: Mapping[str, str]) -> Mapping[str, str]:
    """Return the recorded versions of the system's own packages that count after these steps."""
    update = next((step for step in steps if isinstance(step, UpdateSystem)), None)
    return originals if update is None else originals_after(update.system, originals)


def _plan(
    difference: SoftwareDifference,
    services: Collection[str],
    lasting: Collection[str],
    groups: Mapping[str, str | None],
    system: Sequence[Step],
) -> Plan:
    ending = end_deployments(difference, services, lasting, groups)
    ended = frozenset(step.deployment for step in (*ending.undeploys, *ending.last))
    unchanged = unchanged_deployments(difference, ended)
    steps = _steps(without_software_of(unchanged, difference), ending, unchanged, system)
    return Plan(tuple(steps), ending.handover, tuple(sorted(unchanged)))


def unwanted_services(wanted: Sequence[Assignment], inventory: Inventory) -> frozenset[str]:
    """Return the paths of services that a host has but should not have; other hosts may still have them."""
    deployed = frozenset(marker.deployment.path for marker in inventory.markers)
    return deployed.difference(assignment.path for assignment in wanted)


def _withheld(steps: Iterable[Step], stopped: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the services of the steps that belong to ``stopped`` groups, by group."""
    withheld: dict[str, frozenset[str]] = defaultdict(frozenset)
    for step in steps:
        group = group_of(step)
        if isinstance(step, Deploy | Undeploy) and group is not None and group in stopped:
            withheld[group] |= {step.deployment.path}
    return dict(withheld)


def is_repetition(step: Step) -> bool:
    """Whether a step only repeats a step of the previous revision, as every revision does."""
    match step:
        case Deploy(reason=reason):
            return reason in {RUN_AGAIN, RECORD_MISSING}
        case CheckOut(reason=reason):
            return reason == BUILD_AGAIN
    return isinstance(step, StartDeployments | EndDeployments) and step.reason != NOT_ENDED


def is_settled(plan: Plan) -> bool:
    """Whether the plan of a host that has the revision only repeats steps, so that the host has nothing to do.

    A deployment without a record may have run with other properties, so it has to run again.
    """
    repeats = all(is_repetition(step) and step.reason != RECORD_MISSING for step in plan.steps)
    return repeats and not plan.withheld


def _steps(
    difference: SoftwareDifference,
    ending: EndingDeployments,
    unchanged: frozenset[Deployment],
    system: Sequence[Step],
) -> Iterator[Step]:
    """Yield the steps in the order of their execution.

    Software is removed before the end script of the role's controller, unless services are undeployed after that
    script.
    """
    controller = difference.wanted.controller
    undeploys = (*ending.undeploys, *ending.last)
    reinstalled_first = frozenset(step.package for step in undeploys if step.script is None)
    removal = tuple(_removal_steps(difference, undeploys))
    after = (*ending.last, *removal) if ending.last else ()
    bracketed = (
        *_deploying_steps(difference, ending, reinstalled_first, unchanged),
        *(() if ending.last else removal),
    )
    is_open = difference.inventory.deployments_started
    is_bracketed = controller is not None and bool(
        system or bracketed or ending.undeploys or is_open or not unchanged
    )
    yield from _controller_steps(difference, is_bracketed=is_bracketed)
    if controller is None:
        yield from system
    if reinstalled_first:
        yield reinstall_scripts(difference, reinstalled_first)
    yield from ending.undeploys
    if controller is not None and is_bracketed:
        yield StartDeployments(controller, NOT_ENDED if is_open else "before the deployments")
        yield from system
    yield from bracketed
    if controller is not None and is_bracketed:
        yield EndDeployments(controller, NOT_ENDED if is_open else "after the deployments")
    yield from after


def _deploying_steps(
    difference: SoftwareDifference,
    ending: EndingDeployments,
    reinstalled: Collection[str],
    unchanged: frozenset[Deployment],
) -> Iterator[Step]:
    """Yield the steps that install software and run the deployments.

    ``reinstalled`` are the packages that an earlier step reinstalls.
    """
    wanted = difference.wanted
    yield from (remove_checkout(difference, name) for name in _old_checkouts(difference) if name in wanted.needs)
    if change := change_packages(difference, reinstalled):
        yield change
    new_checkouts = wanted.checkouts.keys() - wanted.controller_packages
    deploys = tuple(_deploys(difference, ending.handover, unchanged))
    run = {step.assignment.package for step in deploys}
    yield from (check_out(difference, name) for name in sorted(new_checkouts & run))
    yield from deploys


def _removal_steps(difference: SoftwareDifference, undeploys: Collection[Undeploy]) -> Iterator[Step]:
    """Yield the steps that remove software without a deployment that needs it."""
    if difference.in_use is not None:
        return
    wanted = difference.wanted
    unneeded_checkouts = [name for name in _old_checkouts(difference) if name not in wanted.needs]
    ended = {step.application for step in undeploys}.union(
        unneeded_checkouts, map(difference.application_of, difference.unneeded)
    )
    if difference.unneeded or ended - wanted.applications:
        yield remove_software(difference, tuple(sorted(ended - wanted.applications)))
    # A checkout's directory is its only record, so its removal comes last.
    yield from (remove_checkout(difference, name) for name in unneeded_checkouts)


def _old_checkouts(difference: SoftwareDifference) -> list[str]:
    """Return the present checkouts that are not wanted, sorted."""
    wanted = difference.wanted
    return sorted(difference.inventory.checkouts.keys() - wanted.checkouts.keys() - wanted.controller_packages)


def _controller_steps(difference: SoftwareDifference, *, is_bracketed: bool) -> Iterator[Step]:
    """Yield the steps that bring the controller up to date.

    The checkout of a controller whose scripts do not run is not renewed. The checkout of another controller is
    removed with the other unneeded checkouts.
    """
    wanted = difference.wanted
    for name in wanted.controller_packages & difference.inventory.checkouts.keys() - wanted.checkouts.keys():
        yield remove_checkout(difference, name)
    if difference.controller_change is not None:
        yield difference.controller_change
    for name in wanted.controller_packages & wanted.checkouts.keys():
        step = check_out(difference, name)
        if is_bracketed or not is_repetition(step):
            yield step


def _deploys(
    difference: SoftwareDifference, handover: str | None, unchanged: frozenset[Deployment]
) -> Iterator[Deploy]:
    """Yield the steps that run the wanted deployments, first those of the service that is handed over."""
    markers = markers_by_deployment(difference.inventory)
    for assignment in sorted(difference.wanted.assignments, key=lambda wanted: wanted.path != handover):
        for deployment in assignment.deployments:
            marker = markers.get((assignment.application, deployment))
            if deployment not in unchanged:
                files = () if marker is None else marker.files
                yield Deploy(
                    assignment=assignment,
                    deployment=deployment,
                    reason="new" if marker is None else reason_to_run(assignment, marker, difference),
                    stale_files=tuple(file for file in files if file != deployment.marker_name),
                    unrecorded=without_record(marker),
                )

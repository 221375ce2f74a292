"""The planner: the steps from a host's inventory to its wanted assignments, in the order of their execution.

Plans have no memory. A step that a crash interrupted shows in the inventory, and the next plan completes it. The
modules beside this one decide each step; this module decides their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.agent.rules.software import (
    WantedSoftware,
    change_packages,
    check_out,
    compare_software,
    reinstall_scripts,
    remove_checkout,
    remove_software,
)
from zkdeployment.agent.rules.step_reasons import BUILD_AGAIN, NOT_ENDED, RECORD_MISSING, RUN_AGAIN
from zkdeployment.agent.rules.undeploying import (
    end_deployments,
    markers_by_deployment,
    reason_to_run,
    unchanged_deployments,
    without_record,
    without_software_of,
)
from zkdeployment.base.plan import CheckOut, Deploy, EndDeployments, Plan, StartDeployments

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zkdeployment.agent.rules.software import SoftwareDifference
    from zkdeployment.agent.rules.undeploying import EndingDeployments
    from zkdeployment.base.deployment import Assignment, Deployment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory
    from zkdeployment.base.plan import Step, Undeploy


def plan(
    wanted: Sequence[Assignment],
    inventory: Inventory,
    controller: Assignment | None = None,
    *,
    identity: Identity | None = None,
    services: Collection[str] = (),
    lasting: Collection[str] = (),
) -> Plan:
    """Return the steps from a host's inventory to the ``wanted`` assignments, each with its reason.

    ``wanted`` is free of conflicts, which ``publishing.targets`` has checked. The order is: undeploy, one package
    transaction, renew all checkouts, run all wanted deployments, remove software that nothing needs any more.
    Unchanged deployments with ``rerun = 'changed'`` are not run, and a checkout that only these use is not
    renewed. The plan changes only packages that are wanted, registered as managed, or own the deploy script under
    their name. The agent's own package may be wanted, but is never removed.

    ``controller`` is the role controller. The controller is brought up to date first, and its scripts bracket all
    steps but the undeployments. If no deployment changes, its scripts run only if the last
    ``starting-deployments`` on this host, perhaps of a former controller, was not followed by a successful
    ``ending-deployments``.

    ``identity`` is that of the host: scripts get it, so that another id, name or role is a change. Without it,
    identities are not compared.

    ``services`` are the paths of services that the tree still has, perhaps for other hosts only; the plan uses
    those in ``unwanted_services``. Their deployments are undeployed under their locks, after the deployments
    of services that left the tree. ``lasting`` are the paths of services that other hosts gain: this host
    undeploys them after the deployments and the controller's scripts, before software is removed.

    Raises ``HostFilesError`` if the host has two controllers, if deployments occupy the controller's directory,
    or if the script of an undeployment is lost and cannot be reinstalled.
    """
    difference = compare_software(WantedSoftware.of(wanted, controller, identity), inventory)
    ending = end_deployments(wanted, difference, services, lasting)
    ended = frozenset(step.deployment for step in (*ending.undeploys, *ending.last))
    unchanged = unchanged_deployments(difference, ended)
    steps = _steps(without_software_of(unchanged, difference), ending, unchanged)
    return Plan(tuple(steps), ending.handover, tuple(sorted(unchanged)))


def unwanted_services(wanted: Sequence[Assignment], inventory: Inventory) -> frozenset[str]:
    """Return the paths of services that a host has but should not have; the tree may have them for others."""
    deployed = frozenset(marker.deployment.path for marker in inventory.markers)
    return deployed.difference(assignment.path for assignment in wanted)


def is_repetition(step: Step) -> bool:
    """Whether a step repeats what was done for the previous revision, as each revision does."""
    match step:
        case Deploy(reason=reason):
            return reason in {RUN_AGAIN, RECORD_MISSING}
        case CheckOut(reason=reason):
            return reason == BUILD_AGAIN
    return isinstance(step, StartDeployments | EndDeployments) and step.reason != NOT_ENDED


def is_settled(plan: Plan) -> bool:
    """Whether a host that has the revision has nothing to do at another publication of it: the plan only repeats.

    A deployment without its record may have been run with other properties, and has to be run again.
    """
    repeats = all(is_repetition(step) and step.reason != RECORD_MISSING for step in plan.steps)
    return repeats and not plan.withheld


def _steps(
    difference: SoftwareDifference, ending: EndingDeployments, unchanged: frozenset[Deployment]
) -> Iterator[Step]:
    """Yield the steps in the order of their execution.

    Software is removed within the bracket of the role's controller, unless services are undeployed after it.
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
    is_bracketed = controller is not None and bool(bracketed or ending.undeploys or is_open or not unchanged)
    yield from _controller_steps(difference, is_bracketed=is_bracketed)
    if reinstalled_first:
        yield reinstall_scripts(difference, reinstalled_first)
    yield from ending.undeploys
    if controller is not None and is_bracketed:
        yield StartDeployments(controller, NOT_ENDED if is_open else "before the deployments")
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
    """Yield the steps that remove software that no deployment needs any more."""
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

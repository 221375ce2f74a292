"""Plans as sentences and as JSON, for ``--dry-run``, the status file and the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.plan import (
    ChangeController,
    ChangePackages,
    CheckOut,
    Deploy,
    EndDeployments,
    Plan,
    Reboot,
    RemoveCheckout,
    RemoveSoftware,
    StartDeployments,
    Step,
    Undeploy,
    UpdateSystem,
)
from zkdeployment.base.system import RebootRule
from zkdeployment.base.text import counted, listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.json_values import Value
    from zkdeployment.base.packages import Item


def sentence(step: Step) -> str:
    """Return one line with the action and the reason of a step: ``deploy /who/myfoo 0 (foo 1.4): new``."""
    return f"{step.title}{_detail(step)}: {step.reason}"


def unchanged_sentence(plan: Plan, most: int | None = None) -> str:
    """Return one line with at most ``most`` of the deployments that are not run again; empty without such."""
    names = listing(list(map(str, plan.unchanged)), most)
    return f"unchanged, not run again: {names}" if names else ""


def action(step: Step, controller: Assignment | None) -> str:
    """Return the script that a step runs, the lock that it acquires and the files that it removes, if any."""
    files = removed_files(step)
    removal = f"removes {', '.join(files)}" if files else ""
    return "; ".join(filter(None, (_call(step, controller), removal)))


def removed_files(step: Step) -> tuple[str, ...]:
    """Return the files and directories under ``/etc`` and ``/opt`` that the agent itself removes in a step.

    A directory under ``/etc`` is removed only if it is empty. The files of packages are removed by rpm.
    """
    match step:
        case Undeploy(application=application, deployment=deployment, files=files):
            return tuple(f"/etc/{application}/{name}" for name in sorted({*files, deployment.marker_name}))
        case Deploy(assignment=assignment, stale_files=files):
            return tuple(f"/etc/{assignment.application}/{name}" for name in sorted(files))
        case ChangeController(removed=packages):
            return tuple(f"/opt/{name}/" for name in packages)
        case RemoveSoftware(packages=packages, applications=applications):
            return *(f"/opt/{name}/" for name in packages), *(f"/etc/{name}/" for name in applications)
        case RemoveCheckout(package=package):
            return (f"/opt/{package}/",)
    return ()


def system_lines(step: Step, changes: Sequence[Item], reasons: Sequence[str], problem: str) -> Iterator[str]:
    """Yield the effect of a step on the operating system: the packages that change, or the reasons of a reboot.

    ``problem`` is why the update is impossible.
    """
    match step:
        case UpdateSystem() if problem:
            yield f"would fail: {problem}"
        case UpdateSystem():
            yield from map(str, changes)
            yield f"{counted(len(changes), 'package')} {'changes' if len(changes) == 1 else 'change'}"
        case Reboot() if not problem:
            needed = f"the packages {', '.join(reasons)} ask for it" if reasons else "no package asks for it"
            yield needed if reasons or not step.is_conditional else f"not needed: {needed}"


def _call(step: Step, controller: Assignment | None) -> str:
    match step:
        case Undeploy(script=script):
            call = f"runs {' '.join((script or 'zookeeper-deploy', *step.arguments))}"
            if step.last:
                return f"{call}{_lock(step, None)}, after the hosts that gain the service have it"
            return f"{call}{_lock(step, controller)}" if step.locked else call
        case Deploy():
            call = f"runs {' '.join(('zookeeper-deploy', *step.arguments))}{_lock(step, controller)}"
            after = step.assignment.after
            return f"{call}, after all hosts have deployed {', '.join(after)}" if after else call
        case StartDeployments() | EndDeployments():
            return f"runs {step.title} under the lock of role {step.controller.role}"
        case UpdateSystem():
            return f"updates packages{_lock(step, controller)}"
        case Reboot():
            call = reboot_text(step.system.reboot)
            return f"{call}{_lock(step, controller)}" if call else ""
    return ""


def reboot_text(rule: RebootRule) -> str:
    """Return whether a host reboots after an update, as part of a sentence; empty for a host that does not."""
    texts = {RebootRule.IF_NEEDED: "reboots if needed", RebootRule.ALWAYS: "reboots", RebootRule.NEVER: ""}
    return texts[rule]


def _lock(step: Undeploy | Deploy | UpdateSystem | Reboot, controller: Assignment | None) -> str:
    return f" under the lock of {step.deployment.path if controller is None else f'role {controller.role}'}"


def describe(plan: Plan) -> list[Value]:
    """Return a plan as JSON: one record for each step, always with ``step`` and ``reason``."""
    return [
        {"step": step.kind, **_details(step, plan.controller), "reason": step.reason, **_effects(step)}
        for step in plan.steps
    ]


def _effects(step: Step) -> dict[str, Value]:
    """Return the services or the hosts that a step waits for, and the files that the agent removes in it."""
    files = removed_files(step)
    effects: dict[str, Value] = {"removed_files": [*files]} if files else {}
    match step:
        case Deploy(assignment=assignment) if assignment.after:
            return {"after": [*assignment.after], **effects}
        case Undeploy(last=True):
            return {"last": True, **effects}
    return effects


def _details(step: Step, controller: Assignment | None) -> dict[str, Value]:
    match step:
        case ChangeController() | ChangePackages():
            removed = step.removed if isinstance(step, ChangeController) else sorted(step.change.remove)
            return {
                "install": dict(sorted(step.change.want.items())),
                "reinstall": [*sorted(step.change.reinstall)],
                "remove": [*removed],
            }
        case StartDeployments() | EndDeployments():
            return {
                "path": step.controller.path,
                "package": step.controller.package,
                "version": step.controller.version,
                "script": step.kind,
                "arguments": [*step.arguments],
                "lock": step.controller.role,
            }
        case Undeploy():
            return {
                "path": step.deployment.path,
                "number": step.deployment.number,
                "application": step.application,
                "script": step.script or "zookeeper-deploy",
                "arguments": [*step.arguments],
                "lock": step.deployment.lock_name if step.last or (step.locked and controller is None) else None,
            }
        case CheckOut() | RemoveCheckout():
            return {"package": step.package, "version": step.version}
        case UpdateSystem() | Reboot():
            return {
                "path": step.system.path,
                "release": step.system.release,
                "lock": step.deployment.lock_name if controller is None else None,
            }
        case Deploy(assignment=assignment):
            return {
                "path": step.deployment.path,
                "number": step.deployment.number,
                "application": assignment.application,
                "package": assignment.package,
                "subtype": assignment.subtype,
                "version": assignment.version,
                "script": "zookeeper-deploy",
                "arguments": [*step.arguments],
                "lock": step.deployment.lock_name if controller is None else None,
            }
    return {
        "remove": [*sorted(step.change.remove)],
        "packages": [*step.packages],
        "applications": [*step.applications],
    }


def _detail(step: Step) -> str:
    match step:
        case Undeploy():
            return f" ({step.application})"
        case CheckOut() | RemoveCheckout():
            return f" ({step.version})"
        case StartDeployments() | EndDeployments():
            return f" ({step.controller.package} {step.controller.version})"
        case UpdateSystem() | Reboot():
            return ""
        case Deploy(assignment=assignment):
            return f" ({' '.join(filter(None, (assignment.package, assignment.subtype, assignment.version)))})"
    parts = [" ".join(filter(None, want)) for want in sorted(step.change.want.items())]
    parts += [f"{name} again" for name in sorted(step.change.reinstall)]
    parts += [f"-{name}" for name in sorted(step.change.remove)]
    return f" ({', '.join(parts)})" if parts else ""

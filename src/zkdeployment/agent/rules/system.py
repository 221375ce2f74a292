"""Decides the steps that bring a host's operating system to its system node: an update, then a reboot.

The report of the host about its operating system follows from the same facts.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.rebooting import reboot_reasons
from zkdeployment.base.machine.reboots import SystemState, deployment_of
from zkdeployment.base.packages import matching_names
from zkdeployment.base.plan import Reboot, UpdateSystem
from zkdeployment.base.system import HostSystem, RebootRule, SystemChange, WantedSystem
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.base.system import RebootFacts


@dataclass(frozen=True)
class SystemNeed:
    """The system node of a host, and what the host has completed of it.

    ``may_reboot`` is whether the host's configuration permits reboots. ``wanted`` is ``None`` for a host without
    a system node.
    """

    wanted: WantedSystem | None = None
    state: SystemState = field(default_factory=SystemState)
    may_reboot: bool = True


def names_in_scope(system: WantedSystem | SystemChange, names: Collection[str]) -> list[str]:
    """Return those ``names`` of packages that an update of the system may change, sorted.

    Packages that belong to services are not considered, nor which updates fix security problems.
    """
    if system.update == "none":
        return []
    named = sorted(names) if isinstance(system.update, str) else matching_names(system.update, names)
    excluded = set(matching_names(system.exclude, names))
    return [name for name in named if name not in excluded]


def originals_after(system: WantedSystem, originals: Mapping[str, str]) -> dict[str, str]:
    """Return those recorded versions of the system's own packages that count after an update of the system."""
    outdated = set(names_in_scope(system, originals))
    return {name: version for name, version in originals.items() if name not in outdated}


def system_steps(
    need: SystemNeed, kept: frozenset[str], originals: Collection[str] = ()
) -> Iterator[UpdateSystem | Reboot]:
    """Yield the update and the reboot that a host needs; ``kept`` are the packages that the update keeps.

    ``originals`` are the system's own packages whose versions before their first change are recorded.
    A reboot follows each update unless the node forbids reboots. Whether the host needs it is decided when the
    update is complete. The step is planned again after the boot, which it then verifies.
    """
    wanted, state = need.wanted, need.state
    if wanted is None:
        return
    is_updated = not state.is_updating and not wanted.is_update_after(state.updated)
    if not is_updated and wanted.update != "none":
        change = SystemChange(wanted.release, wanted.update, wanted.exclude, kept)
        outdated = tuple(names_in_scope(wanted, originals))
        yield UpdateSystem(wanted, change, _why_updated(wanted, state), outdated)
    if wanted.reboot is RebootRule.NEVER or not need.may_reboot:
        if not is_updated and wanted.update == "none":
            yield Reboot(wanted, "nothing to do at this generation")
        return
    if not (is_updated and state.is_settled):
        yield Reboot(wanted, _why_rebooted(wanted, state))


def must_reboot(wanted: WantedSystem, state: SystemState, reasons: tuple[str, ...], *, may_reboot: bool) -> bool:
    """Whether a host whose update is complete has to reboot now; ``reasons`` are the packages that ask for it."""
    if wanted.reboot is RebootRule.NEVER or not may_reboot:
        return False
    if wanted.reboot is RebootRule.ALWAYS:
        return not state.boots.get(str(deployment_of(wanted)))
    return bool(reasons)


def host_system(state: SystemState, facts: RebootFacts, before: HostSystem | None, now: float) -> HostSystem:
    """Return the report of a host about its operating system.

    A reboot is due since the last update, if that is later than the boot. People may have installed the packages
    that ask for it; a reboot is then due since the host first reported that, in the report ``before``.
    """
    reasons, updated = reboot_reasons(facts), state.updated
    due = None
    if reasons and state.time is not None and state.time > facts.booted:
        due = state.time
    elif reasons:
        due = now if before is None or before.due is None else before.due
    return HostSystem(
        release=state.present_release,
        generation=0 if updated is None else updated.generation,
        kernel=facts.kernel,
        installed_kernel=facts.installed_kernel,
        reasons=reasons,
        due=due,
        advisories=state.advisories,
        exceptions=state.exceptions,
        updated=state.time,
    )


def _why_updated(wanted: WantedSystem, state: SystemState) -> str:
    updated = state.updated
    if state.is_updating:
        return "an earlier update was interrupted"
    if updated is None:
        return "the first update of this host"
    if updated.release != wanted.release:
        return f"release changed from {updated.release} to {wanted.release}"
    if updated.generation != wanted.generation:
        return f"generation changed from {updated.generation} to {wanted.generation}"
    return "the packages to update changed"


def _why_rebooted(wanted: WantedSystem, state: SystemState) -> str:
    if state.boots.get(str(deployment_of(wanted))):
        return "verify the boot"
    return "after each update" if wanted.reboot is RebootRule.ALWAYS else "if updated packages need it"

"""Estimates the packages that an update of the operating system changes on a host, without a solver.

The facts are the inventory of the host and the packages of the release. Each installed package gets the version of
the release, as with dnf. Only the solver on the host knows which dependencies and successors a release adds, and
which old kernels dnf removes; the estimate omits these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.agent.rules.rebooting import reboot_reasons
from zkdeployment.agent.rules.system import must_reboot, names_in_scope
from zkdeployment.base.machine.reboots import SystemState
from zkdeployment.base.packages import Item, after, items, order_key, select
from zkdeployment.base.system import RebootFacts
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from zkdeployment.agent.rules.availability import Offers
    from zkdeployment.base.inventory import Inventory, Package
    from zkdeployment.base.system import WantedSystem


@dataclass(frozen=True, slots=True)
class EstimatedUpdate:
    """The estimated update of the operating system of a host.

    ``changes`` are those of packages, sorted by name; ``security`` are the names of those that fix a security
    problem. ``reasons`` are the packages that ask for a reboot, ``reboots`` is whether the host reboots.
    """

    changes: tuple[Item, ...] = ()
    security: frozenset[str] = frozenset()
    reasons: tuple[str, ...] = ()
    reboots: bool = False


def estimated_update(
    system: WantedSystem,
    inventory: Inventory,
    kept: Collection[str],
    offers: Offers,
    arch: str,
    due: Iterable[str] = (),
) -> EstimatedUpdate:
    """Return the estimated update of a host of the architecture ``arch`` to a system.

    ``kept`` are the packages that the update does not change, ``offers`` the packages of the release. ``due`` are
    the packages that ask for a reboot already. The host is assumed to be permitted to reboot.
    """
    names = [*_changeable(system, inventory, kept, offers)]
    available = (package for name in names for package in offers.packages[name])
    chosen, _ = select(available, dict.fromkeys(names), arch=arch, installed=inventory.packages)
    coming = {
        name: found
        for name, found in chosen.items()
        if not set(found) <= set(inventory.packages[name]) and not _is_older_kernel(name, found, inventory)
    }
    before = {name: inventory.packages[name] for name in coming}
    installed = [package for found in coming.values() for package in found]
    changes = items(before, after(before, installed, (), inventory.installonly))
    changed = frozenset(item.name for item in changes)
    asking = frozenset(due)
    reasons = reboot_reasons(RebootFacts("", 0.0, "", changed=changed | asking, reported=asking))
    return EstimatedUpdate(
        changes,
        frozenset(name for name in changed if _fixes(before[name], offers.security.get(name, ()))),
        reasons,
        must_reboot(system, SystemState(), reasons, may_reboot=True),
    )


def _changeable(
    system: WantedSystem, inventory: Inventory, kept: Collection[str], offers: Offers
) -> Iterator[str]:
    """Yield the names of the installed packages that the system updates and the release has."""
    installed = inventory.packages
    for name in names_in_scope(system, installed):
        is_wanted = system.update != "security" or _fixes(installed[name], offers.security.get(name, ()))
        if is_wanted and name not in kept and name in offers.packages:
            yield name


def _fixes(installed: Collection[Package], security: Iterable[Package]) -> bool:
    """Whether one of the packages of a security advisory is newer than the installed packages of its name."""
    newest = max(map(order_key, installed))[:3]
    return any(order_key(package)[:3] > newest for package in security)


def _is_older_kernel(name: str, found: Iterable[Package], inventory: Inventory) -> bool:
    """Whether several versions may be installed, and the release has an older one than the host."""
    if name not in inventory.installonly:
        return False
    return max(map(order_key, found))[:3] < max(map(order_key, inventory.packages[name]))[:3]

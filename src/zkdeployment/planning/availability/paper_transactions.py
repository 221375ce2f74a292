"""Transactions on paper: the package changes of hosts as a solver can resolve them without the hosts.

Packages that the agent may not change stay unchanged; everything else follows from the package change. New
dependencies may come, as on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.planning.packages import after, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.model.host import Identity
    from zkdeployment.model.inventory import Package, Packages
    from zkdeployment.model.plan import PackageChange
    from zkdeployment.planning.availability.host_software import HostSoftware


@dataclass(frozen=True, slots=True)
class PaperTransaction:
    """A package transaction of all hosts with the same packages and the same change.

    ``present`` are all packages before the transaction. Of these, ``stay`` are the packages that must not change,
    and ``stay_in_any_version`` the names of packages that may get another version. ``install`` are the packages to
    install, ``remove`` the names of the packages to remove.
    """

    present: frozenset[Package]
    stay: frozenset[Package]
    stay_in_any_version: frozenset[str]
    install: frozenset[Package]
    remove: frozenset[str]


def group_transactions(
    hosts: Iterable[HostSoftware], available: Packages
) -> Mapping[PaperTransaction, tuple[Identity, ...]]:
    """Return the transactions of hosts of one architecture, each with its hosts: equal ones are resolved once."""
    groups: dict[PaperTransaction, list[Identity]] = {}
    for host in hosts:
        for transaction in _transactions(host, available):
            groups.setdefault(transaction, []).append(host.identity)
    return {transaction: tuple(identities) for transaction, identities in groups.items()}


def _transactions(host: HostSoftware, available: Packages) -> Iterator[PaperTransaction]:
    """Yield the transactions of a host; they end before one with a package that no repository has."""
    installed = host.installed
    for change in host.changes:
        want = {name: version for name, version in change.want.items() if name not in host.put_back}
        offers = (package for name in want for package in available.get(name, ()))
        chosen, missing = select(offers, want, arch=host.arch)
        if missing:
            return
        yield _transaction(installed, change, chosen)
        installed = after(installed, chosen.values(), change.remove)


def _transaction(installed: Packages, change: PackageChange, chosen: Mapping[str, Package]) -> PaperTransaction:
    kept = installed.keys() - change.want.keys() - change.remove
    # A transaction that removes packages may also remove others that the agent manages.
    changeable = frozenset(kept & change.managed)
    return PaperTransaction(
        present=frozenset(package for packages in installed.values() for package in packages),
        stay=frozenset(package for name in kept - changeable for package in installed[name]),
        stay_in_any_version=frozenset() if change.remove else changeable,
        install=frozenset(chosen.values()),
        remove=frozenset(change.remove - change.want.keys()),
    )

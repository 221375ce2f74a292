"""Checks the packages that a publication wants, for ``lint``, ``plan`` and the syncer alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import PackageError
from zkdeployment.planning.availability.demands import new_demands
from zkdeployment.planning.availability.findings import (
    PackageFindings,
    availability_problems,
    of_absent_hosts,
    transaction_problems,
    unreachable_warnings,
    unread_warning,
    unresolved_warnings,
)
from zkdeployment.planning.availability.host_software import (
    demands_of_absent_hosts,
    host_software,
    unmet_demands,
)
from zkdeployment.planning.availability.paper_transactions import group_transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from zkdeployment.adapters.packages.host_repositories import DnfHostRepositories
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets
    from zkdeployment.planning.availability.demands import Demand
    from zkdeployment.planning.availability.host_software import HostSoftware
    from zkdeployment.planning.prediction import Prediction, PredictionBasis


def check_packages(
    repositories: DnfHostRepositories,
    targets: Targets,
    before: Targets,
    read_hosts: Callable[[Collection[str]], Iterable[KnownHost]] = lambda _names: (),
    absent: Collection[str] = (),
) -> PackageFindings:
    """Return the findings about the packages that ``targets`` want and the targets ``before`` did not want.

    ``read_hosts`` takes the names of targets and returns their known hosts. A package that only hosts with ids in
    ``absent`` could not install is a warning, because the inventories of these hosts are old, and the hosts may be
    gone for good. Warnings are also transactions that cannot be resolved in time, and packages of another
    architecture whose repositories cannot be read. If nothing is newly wanted, neither hosts nor repositories are
    read. Raises ``PackageError`` if the repositories cannot be read at all.
    """
    demands = new_demands(targets, before)
    if not demands:
        return PackageFindings()
    known = (
        host_software(host, targets, absent=host.identity.id in absent) for host in read_hosts(demands.keys())
    )
    hosts = [host for host in known if host is not None]
    unmet = unmet_demands(demands, hosts)
    problems: dict[Problem, None] = {}
    for arch, needed in unmet.items():
        try:
            problems.update(dict.fromkeys(_problems(repositories, arch, needed, hosts)))
        except PackageError as error:
            if not problems:
                raise
            problems[unread_warning(error, arch)] = None  # what is known already stays a problem
    return PackageFindings(tuple(problems), sum(map(len, unmet.values())))


def with_package_check(
    predicted: Prediction, basis: PredictionBasis, repositories: DnfHostRepositories
) -> Prediction:
    """Return a prediction with the findings about its packages, or with a warning why they were not checked.

    All known hosts are considered, whether or not they were selected: the syncer refuses a publication for all.
    """

    def read_hosts(targets: Collection[str]) -> Iterable[KnownHost]:
        return [host for host in basis.known if not set(host.identity.published_names).isdisjoint(targets)]

    absent = {host.identity.id for host in basis.known} - {host.identity.id for host in basis.hosts}
    try:
        findings = check_packages(repositories, predicted.targets, predicted.targets_before, read_hosts, absent)
    except PackageError as error:
        reason = f"warning: the packages are not checked: {error}"
        return replace(predicted, warnings=(*predicted.warnings, reason))
    return replace(predicted, packages=findings)


def _problems(
    repositories: DnfHostRepositories, arch: str, needed: frozenset[Demand], hosts: Collection[HostSoftware]
) -> Iterator[Problem]:
    """Yield the problems of the hosts of one architecture."""
    concerned = [host for host in hosts if host.arch == arch and host.missing]
    names = {demand.package for demand in needed}
    names.update(name for host in concerned for change in host.changes for name in change.want)
    offers = repositories.offers(names, arch)
    yield from unreachable_warnings(offers)
    doubtful = demands_of_absent_hosts(concerned)
    yield from availability_problems(needed - doubtful.keys(), offers, arch)
    for demand in sorted(needed & doubtful.keys()):
        for problem in availability_problems([demand], offers, arch):
            yield of_absent_hosts(problem, doubtful[demand])
    if offers.unreachable:
        return  # a dependency may be in a repository that cannot be read
    groups = group_transactions(concerned, offers.packages)
    if not arch:  # packages for an unknown architecture cannot be resolved on this machine
        groups = {
            transaction: hosts_of
            for transaction, hosts_of in groups.items()
            if all(package.arch == "noarch" for package in transaction.install)
        }
    if groups:
        resolution = repositories.resolve(groups.keys(), arch)
        yield from transaction_problems(groups, resolution.problems, concerned)
        yield from unresolved_warnings(groups, resolution)

"""Checks the packages that a publication wants, for ``lint``, ``plan`` and the guard of the syncer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.availability import (
    Demand,
    HostSoftware,
    PackageFindings,
    architecture_problems,
    availability_problems,
    demands_of_absent_hosts,
    group_transactions,
    host_software,
    new_demands,
    of_absent_hosts,
    refusal_of,
    transaction_problems,
    unmet_demands,
    unreachable_warnings,
    unread_warning,
    unresolved_warnings,
)
from zkdeployment.agent.rules.hidden import filtered, with_obstacles
from zkdeployment.agent.rules.release_check import demands_by_release, new_systems, patterns_of, release_problems
from zkdeployment.base.errors import PackageError, RefusedError
from zkdeployment.base.log import get_logger
from zkdeployment.base.source_files import Severity
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.records import CHECK_BUDGET
from zkdeployment.publishing.rules.review import place
from zkdeployment.publishing.store.hosts import read_inventories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
    from zkdeployment.agent.rules.availability import Offers
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.source_files import Problem
    from zkdeployment.base.system import WantedSystem
    from zkdeployment.fleet.views.forecast import Prediction, PredictionBasis
    from zkdeployment.publishing.rules.changes import Draft
    from zkdeployment.publishing.rules.convergence import PublicationSnapshot
    from zkdeployment.publishing.store.store import ZooKeeperPublications


def check_packages(
    repositories: DnfHostRepositories,
    targets: Targets,
    before: Targets,
    read_hosts: Callable[[Collection[str]], Iterable[KnownHost]] = lambda _names: (),
    absent: Collection[str] = (),
) -> PackageFindings:
    """Return the findings about the packages that ``targets`` want and the previous targets (``before``) did not.

    The releases and patterns of new updates of operating systems are checked, too. Services are checked against
    the release that the system node of their hosts wants.

    ``read_hosts`` takes the names of targets and returns their known hosts. A package that only hosts with ids in
    ``absent`` could not install gives a warning, because the inventories of these hosts are old, and the hosts may
    have been removed for good. Transactions that cannot be resolved in time, and packages of another architecture
    whose repositories cannot be read, give warnings, too. If nothing is newly wanted, neither hosts nor
    repositories are read. Raises ``PackageError`` if the repositories cannot be read at all.
    """
    demands = new_demands(targets, before)
    systems = new_systems(targets, before)
    if not demands and not systems:
        return PackageFindings()
    names = frozenset(demands).union(*systems.values())
    known = (host_software(host, targets, absent=host.identity.id in absent) for host in read_hosts(names))
    hosts = [host for host in known if host is not None]
    problems: dict[Problem, None] = {}
    checked = 0
    releases: dict[tuple[str, str], Offers] = {}
    for check in (
        *_system_checks(repositories, systems, hosts, releases),
        *_demand_checks(repositories, demands, hosts, targets),
    ):
        checked += check.number
        try:
            problems.update(dict.fromkeys(check.problems))
        except PackageError as error:
            if not problems:
                raise
            problems[unread_warning(error, check.arch)] = None  # the problems that were found before count
    return PackageFindings(tuple(problems), checked, releases)


@dataclass(frozen=True, slots=True)
class _Check:
    """The problems of the hosts of one architecture, found when they are read, and the ``number`` of demands."""

    arch: str
    number: int
    problems: Iterator[Problem]


def _system_checks(
    repositories: DnfHostRepositories,
    systems: Mapping[WantedSystem, frozenset[str]],
    hosts: Collection[HostSoftware],
    releases: dict[tuple[str, str], Offers],
) -> Iterator[_Check]:
    """Yield the checks of the releases and the patterns of system nodes; add the packages of these ``releases``.

    The repositories are read once for each release and architecture.
    """
    checks: dict[tuple[str, str], dict[WantedSystem, frozenset[str]]] = {}
    for system, names in systems.items():
        concerned = [host for host in hosts if not names.isdisjoint(host.identity.published_names)]
        installed = frozenset(name for host in concerned for name in host.installed)
        for arch in sorted({host.arch for host in concerned}) or [""]:
            checks.setdefault((system.release, arch), {})[system] = installed
    for (release, arch), installed_by in checks.items():
        yield _Check(
            arch, len(installed_by), _system_problems(repositories, release, arch, installed_by, releases)
        )


def _system_problems(
    repositories: DnfHostRepositories,
    release: str,
    arch: str,
    systems: Mapping[WantedSystem, frozenset[str]],
    releases: dict[tuple[str, str], Offers],
) -> Iterator[Problem]:
    """Yield the problems of the systems of a release; each is mapped to the names of its hosts' packages."""
    names = frozenset(pattern for system in systems for pattern in patterns_of(system)).union(*systems.values())
    offers = releases[release, arch] = repositories.at_release(release).offers(names, arch)
    for system, installed in systems.items():
        problems = [*release_problems(system, offers, installed, arch)]
        if not any(problem.severity is Severity.ERROR for problem in problems):
            yield from unreachable_warnings(offers)
        yield from problems


def _demand_checks(
    repositories: DnfHostRepositories,
    demands: Mapping[str, frozenset[Demand]],
    hosts: Collection[HostSoftware],
    targets: Targets,
) -> Iterator[_Check]:
    """Yield the checks of the packages of services, by the release of the hosts."""
    for release, demanded in demands_by_release(demands, hosts, targets).items():
        those = [host for host in hosts if host.release == release]
        read = repositories.at_release(release) if release else repositories
        for arch, needed in unmet_demands(demanded, those).items():
            yield _Check(arch, len(needed), _problems(read, arch, needed, those))


def with_package_check(
    predicted: Prediction, basis: PredictionBasis, repositories: DnfHostRepositories
) -> Prediction:
    """Return a prediction with the findings about its packages, or with a warning why they were not checked.

    All known hosts count, also if they were not selected, because the syncer refuses a publication for all hosts.
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
    if not offers.unreachable:
        lacking = {demand.package for demand in needed if offers.lacks(demand, arch)}
        visible = [package for name in lacking for package in offers.packages.get(name, ())]
        offers = replace(offers, hidden=repositories.hidden(lacking, arch, visible))
    yield from unreachable_warnings(offers)
    doubtful = demands_of_absent_hosts(concerned)
    yield from availability_problems(needed - doubtful.keys(), offers, arch)
    for demand in sorted(needed & doubtful.keys()):
        for problem in availability_problems([demand], offers, arch):
            yield of_absent_hosts(problem, doubtful[demand])
    yield from architecture_problems(concerned, offers)
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
        hidden = repositories.hidden(filtered(" ".join(resolution.problems.values())), arch)
        reasons = {
            transaction: with_obstacles(reason, hidden) for transaction, reason in resolution.problems.items()
        }
        yield from transaction_problems(groups, reasons, concerned)
        yield from unresolved_warnings(groups, resolution)


class PackageGuard:
    """Checks publications to ``store`` against the ``repositories`` of hosts.

    A warning, such as an unreachable repository, is logged once until it has ended.
    """

    def __init__(self, store: ZooKeeperPublications, repositories: DnfHostRepositories) -> None:
        self._store = store
        self._repositories = repositories
        self._warned: frozenset[str] = frozenset()

    def check(self, snapshot: PublicationSnapshot, tip: Revision, draft: Draft) -> None:
        """Raise ``RefusedError`` if hosts could not install the packages that a draft newly wants.

        An error that prevents the check gives a warning.
        """

        def read_hosts(targets: Collection[str]) -> Sequence[KnownHost]:
            identities = (host for host in snapshot.known if not set(host.published_names).isdisjoint(targets))
            return read_inventories(self._store.session, [host.id for host in identities])

        before = draft.baseline.ordered
        absent = {host.identity.id for host in snapshot.absent}
        try:
            repositories = self._repositories.within(CHECK_BUDGET)
            findings = check_packages(repositories, draft.targets, before, read_hosts, absent)
        except PackageError as error:
            self._warn([f"the packages of publications are not checked: {error}"])
            return
        if findings.checked:
            self._warn(map(str, findings.warnings))
        placed = tuple(place(problem, draft.reviewed.linted) for problem in findings.problems)
        refusal = refusal_of(tip, replace(findings, problems=placed))
        if refusal is not None:
            raise RefusedError(refusal)

    def _warn(self, warnings: Iterable[str]) -> None:
        """Log the warnings that the last check did not have."""
        current = frozenset(warnings)
        for warning in sorted(current - self._warned):
            get_logger().warning("packages-not-checked", reason=warning)
        self._warned = current

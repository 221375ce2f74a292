"""Decides whether the packages that a publication newly wants exist and can be installed.

Packages that a target wanted before the publication are not checked again: a repository may drop deployed
versions.

As on the host, the packages that the agent may not change stay, and new dependencies may be installed. Packages
that cannot be judged, because a repository is unreachable, cause a warning.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.hidden import Lack, Obstacle, lacks
from zkdeployment.agent.rules.planner import plan
from zkdeployment.base.errors import HostFilesError, PackageError, TreeError
from zkdeployment.base.packages import after, select
from zkdeployment.base.plan import ChangeController, ChangePackages, PackageChange, Plan
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.targets.compiler import wanted_for
from zkdeployment.tree.checkout import is_checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Inventory, KnownHost, Package, Packages
    from zkdeployment.base.json_values import Value
    from zkdeployment.base.publication import Targets
    from zkdeployment.base.system import HostSystem, WantedSystem


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """A package or a patch that the service at ``path`` wants, at any version if ``version`` is empty."""

    path: str
    package: str
    version: str = ""


def demands_of(assignments: Iterable[Assignment]) -> Iterator[Demand]:
    """Yield the demands of assignments, without checkouts, which are not packages."""
    for assignment in assignments:
        if assignment.n and not is_checkout(assignment.version):
            yield Demand(assignment.path, assignment.package, assignment.version or "")
        if assignment.n:
            for name, version in sorted(assignment.patches.items()):
                yield Demand(assignment.path, name, version)


def new_demands(targets: Targets, before: Targets) -> Mapping[str, frozenset[Demand]]:
    """Return the demands of each target for packages or versions that it did not want ``before``."""
    demands = {}
    for name, assignments in targets.items():
        old = before.get(name, ())
        if assignments == old:
            continue
        wanted = {(demand.package, demand.version) for demand in demands_of(old)}
        added = [demand for demand in demands_of(assignments) if (demand.package, demand.version) not in wanted]
        if added:
            demands[name] = frozenset(added)
    return demands


@dataclass(frozen=True, slots=True)
class HostSoftware:
    """The installed packages of a host and the package changes of its plan, in order.

    ``arch`` is the architecture of most of its packages, empty if all are for any architecture. ``demands`` are
    those of its assignments and its controller. ``installonly`` are the names of packages that stay beside newer
    ones. ``put_back`` are packages of which the host keeps a copy of the
    original version, so that no repository needs to have it. ``absent`` is whether the host is not registered.
    ``release`` is that of its system node, or its present one if the node only reboots; empty without a node.
    """

    identity: Identity
    installed: Packages
    arch: str
    changes: tuple[PackageChange, ...]
    demands: tuple[Demand, ...]
    put_back: frozenset[str] = frozenset()
    installonly: frozenset[str] = frozenset()
    absent: bool = False
    release: str = ""

    @property
    def missing(self) -> frozenset[Demand]:
        """The demands that the host does not meet yet."""
        wanted = {name for change in self.changes for name in change.want.keys() - self.put_back}
        return frozenset(demand for demand in self.demands if demand.package in wanted)


def host_software(known: KnownHost, targets: Targets, *, absent: bool = False) -> HostSoftware | None:
    """Return the package changes of a host; ``None`` if its inventory is unknown, or if its agent would refuse.

    A host with ``packages = none`` reports and changes no packages. Refusals for other reasons than packages
    belong to the forecast.
    """
    if known.inventory is None:
        return None
    try:
        wanted = wanted_for(known.identity, targets)
        steps = plan(wanted.assignments, known.inventory, wanted.controller, identity=known.identity)
    except (TreeError, HostFilesError):
        return None
    controller = () if wanted.controller is None else (wanted.controller,)
    return HostSoftware(
        identity=known.identity,
        installed=known.inventory.packages,
        arch=architecture(known.inventory),
        changes=tuple(
            step.change
            for step in steps.steps
            if isinstance(step, ChangeController | ChangePackages) and (step.change.want or step.change.remove)
        )
        if known.inventory.packages
        else (),
        demands=tuple(demands_of((*wanted.assignments, *controller))),
        put_back=_put_back(steps),
        installonly=known.inventory.installonly,
        absent=absent,
        release=_release(wanted.system, known.system),
    )


def _release(wanted: WantedSystem | None, reported: HostSystem | None) -> str:
    """Return the release from which a host installs packages of services, empty if it has none or is unknown."""
    if wanted is None:
        return ""
    return wanted.new_release or (reported and reported.release) or ""


def unmet_demands(
    demands: Mapping[str, frozenset[Demand]], hosts: Iterable[HostSoftware]
) -> Mapping[str, frozenset[Demand]]:
    """Return, by architecture, the new ``demands`` of targets that repositories have to meet.

    Demands that all known hosts of a target meet already are omitted. The architecture of targets without a known
    host is empty.
    """
    unmet: dict[str, set[Demand]] = {}
    judged: set[str] = set()
    for host in hosts:
        names = demands.keys() & set(host.identity.published_names)
        judged |= names
        new = frozenset[Demand]().union(*(demands[name] for name in names))
        if needed := new & host.missing:
            unmet.setdefault(host.arch, set()).update(needed)
    for name in demands.keys() - judged:
        unmet.setdefault("", set()).update(demands[name])
    return {arch: frozenset(needed) for arch, needed in sorted(unmet.items())}


def demands_of_absent_hosts(hosts: Iterable[HostSoftware]) -> Mapping[Demand, tuple[Identity, ...]]:
    """Return the demands that only absent hosts do not meet yet, each with these hosts."""
    lacking: dict[Demand, list[HostSoftware]] = {}
    for host in hosts:
        for demand in host.missing:
            lacking.setdefault(demand, []).append(host)
    return {
        demand: tuple(host.identity for host in those)
        for demand, those in lacking.items()
        if all(host.absent for host in those)
    }


def architecture(inventory: Inventory) -> str:
    """Return the architecture of most packages of a host, empty if all are for any architecture."""
    counts = Counter(package.arch for packages in inventory.packages.values() for package in packages)
    del counts["noarch"]
    return min(counts, key=lambda arch: (-counts[arch], arch), default="")


def _put_back(steps: Plan) -> frozenset[str]:
    return frozenset(name for step in steps.steps if isinstance(step, ChangePackages) for name in step.put_back)


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
    """Return the transactions of hosts of one architecture, equal ones once, each with its hosts."""
    groups: dict[PaperTransaction, list[Identity]] = {}
    for host in hosts:
        for transaction in _transactions(host, available):
            groups.setdefault(transaction, []).append(host.identity)
    return {transaction: tuple(identities) for transaction, identities in groups.items()}


def _transactions(host: HostSoftware, available: Packages) -> Iterator[PaperTransaction]:
    """Yield the transactions of a host up to the first one with a package that no repository has."""
    installed = host.installed
    for change in host.changes:
        want = {name: version for name, version in change.want.items() if name not in host.put_back}
        offers = (package for name in want for package in available.get(name, ()))
        chosen, missing = select(offers, want, arch=host.arch, installed=installed)
        if missing:
            return
        install = [package for same in chosen.values() for package in same]
        yield _transaction(installed, change, install, host.installonly)
        installed = after(installed, install, change.remove, host.installonly)


def _transaction(
    installed: Packages, change: PackageChange, install: Iterable[Package], installonly: frozenset[str]
) -> PaperTransaction:
    kept = installed.keys() - (change.want.keys() - installonly) - change.remove
    # A transaction that removes packages may also remove other managed packages.
    changeable = frozenset(kept & change.managed).difference(change.want)
    return PaperTransaction(
        present=frozenset(package for packages in installed.values() for package in packages),
        stay=frozenset(package for name in kept - changeable for package in installed[name]),
        stay_in_any_version=frozenset() if change.remove else changeable,
        install=frozenset(install),
        remove=frozenset(change.remove - change.want.keys()),
    )


#: The most hosts that a message names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Offers:
    """The available packages by name, and the reason for each repository that is unreachable, by its id.

    ``hidden`` are packages that the repositories have and dnf hides, as far as that was asked. ``releases`` is
    whether a repository has the release that was asked for, by id; repositories whose addresses do not contain the
    release, or that do not answer, are omitted. ``security`` are those of the packages that security advisories
    name, by name.
    """

    packages: Packages
    unreachable: Mapping[str, str]
    hidden: Mapping[Package, Obstacle] = field(default_factory=dict)
    releases: Mapping[str, bool] = field(default_factory=dict)
    security: Packages = field(default_factory=dict)

    def lacks(self, demand: Demand, arch: str) -> tuple[Lack, ...]:
        """Return why dnf does not find the package of a demand; empty if dnf finds it."""
        want = {demand.package: demand.version or None}
        return lacks(self.packages.get(demand.package, ()), want, self.hidden, arch=arch)


@dataclass(frozen=True, slots=True)
class PaperResolution:
    """The ``problems`` of transactions that hosts could not make, as the solver reports them.

    Transactions in ``unresolved`` were not judged, for the ``reason``. The solver found no problem in all others.
    """

    problems: Mapping[PaperTransaction, str]
    unresolved: tuple[PaperTransaction, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PackageFindings:
    """The problems of the packages that a publication wants, and warnings; ``checked`` counts the demands.

    ``releases`` are the packages for hosts that newly want a release, by the release and the architecture.
    """

    problems: tuple[Problem, ...] = ()
    checked: int = 0
    releases: Mapping[tuple[str, str], Offers] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.problems)

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``plan -o json`` prints it."""
        problems: list[Value] = [
            {"severity": problem.severity.value, "path": problem.path, "message": problem.message}
            for problem in self.problems
        ]
        return {"checked": self.checked, "problems": problems}

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid the publication."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not forbid the publication."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)


def unreachable_warnings(offers: Offers) -> Iterator[Problem]:
    """Yield a warning for each unreachable repository."""
    for name, reason in sorted(offers.unreachable.items()):
        yield Problem(
            f"the repository {name} cannot be reached: {reason}; packages that may be in it are not checked",
            severity=Severity.WARNING,
        )


def availability_problems(demands: Iterable[Demand], offers: Offers, arch: str) -> Iterator[Problem]:
    """Yield a problem for each demand that no package meets; a warning if a repository is unreachable."""
    for demand in sorted(demands):
        for lack in offers.lacks(demand, arch):
            architecture = f" for {arch}" if arch and demand.package not in offers.packages else ""
            problem = Problem(f"{lack.sentence}{architecture}{lack.advice}", path=demand.path)
            yield replace(problem, severity=Severity.WARNING) if offers.unreachable else problem


def architecture_problems(hosts: Iterable[HostSoftware], offers: Offers) -> Iterator[Problem]:
    """Yield a problem for each package that a host has for two architectures, but repositories for one only."""
    lacking: dict[tuple[Demand, str], list[HostSoftware]] = {}
    for host in hosts:
        for demand in sorted(host.missing):
            available = offers.packages.get(demand.package, ())
            want = {demand.package: demand.version or None}
            if not select(available, want, arch=host.arch)[1]:
                for sentence in select(available, want, arch=host.arch, installed=host.installed)[1]:
                    lacking.setdefault((demand, sentence), []).append(host)
    for (demand, sentence), those in lacking.items():
        registered = [host.identity for host in those if not host.absent]
        identities = registered or [host.identity for host in those]
        where = listing(sorted(map(str, identities)), _NAMED)
        what = f"cannot install {demand.package} {demand.version}".strip()
        advice = "publish it, or correct the version in the tree"
        problem = Problem(f"{what} on {where}: {sentence}; {advice}", path=demand.path)
        if offers.unreachable:
            problem = replace(problem, severity=Severity.WARNING)
        yield problem if registered else of_absent_hosts(problem, identities)


def of_absent_hosts(problem: Problem, hosts: Sequence[Identity]) -> Problem:
    """Return a problem of only absent hosts as a warning with advice about these hosts."""
    where = listing(sorted(map(str, hosts)), _NAMED)
    advice = "absent; if a host is gone for good, use 'zkdeployment forget HOST'"
    return replace(problem, message=f"{problem.message} ({where}: {advice})", severity=Severity.WARNING)


def transaction_problems(
    groups: Mapping[PaperTransaction, Sequence[Identity]],
    reasons: Mapping[PaperTransaction, str],
    hosts: Iterable[HostSoftware],
) -> Iterator[Problem]:
    """Yield a problem for each transaction that cannot be resolved; ``reasons`` are the solver's messages."""
    software = {host.identity.id: host for host in hosts}
    for transaction, reason in reasons.items():
        registered = [identity for identity in groups[transaction] if not software[identity.id].absent]
        identities = registered or groups[transaction]
        names = {package.name for package in transaction.install}
        demands = software[identities[0].id].demands
        paths = sorted({demand.path for demand in demands if demand.package in names})
        installed = ", ".join(sorted(package.nevra for package in transaction.install))
        what = f"cannot install {installed}" if installed else f"cannot remove {', '.join(transaction.remove)}"
        where = listing(sorted(map(str, identities)), _NAMED)
        problem = Problem(
            f"{what} on {where}: {reason}; correct the dependencies, or the versions in the tree",
            path=paths[0] if paths else None,
        )
        yield problem if registered else of_absent_hosts(problem, identities)


def unresolved_warnings(
    groups: Mapping[PaperTransaction, Sequence[Identity]], resolution: PaperResolution
) -> Iterator[Problem]:
    """Yield a warning about the hosts whose transactions were not resolved, if there are any."""
    hosts = sorted({str(identity) for transaction in resolution.unresolved for identity in groups[transaction]})
    if hosts:
        message = f"the package transactions of {listing(hosts, _NAMED)} are not checked: {resolution.reason}"
        yield Problem(message, severity=Severity.WARNING)


def unread_warning(reason: PackageError, arch: str) -> Problem:
    """Return a warning that the packages for an architecture (empty: unknown) were not checked."""
    hosts = f"hosts of the architecture {arch}" if arch else "hosts of unknown architecture"
    return Problem(f"the packages of {hosts} are not checked: {reason}", severity=Severity.WARNING)


def refusal_of(tip: Revision, findings: PackageFindings) -> str | None:
    """Return why a tip is refused, one problem on each line after the first; ``None`` if there are no problems."""
    if not findings.errors:
        return None
    lines = "\n  ".join(map(str, findings.errors))
    return (
        f"{tip} is not published: hosts could not install its packages; if it is to be published nevertheless, use"
        f" {GuardOverrides(package_problems=True).command}:\n  {lines}"
    )

"""The findings about packages that a publication wants: problems, which forbid it, and warnings.

Packages that could not be judged, because a repository is unreachable, cause a warning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.model.listing import listing
from zkdeployment.model.problem import Problem, Severity
from zkdeployment.planning.packages import select

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.errors import PackageError
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.inventory import Packages
    from zkdeployment.model.tree import Value
    from zkdeployment.planning.availability.demands import Demand
    from zkdeployment.planning.availability.host_software import HostSoftware
    from zkdeployment.planning.availability.paper_transactions import PaperTransaction

#: How many hosts a message names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Offers:
    """The available packages by name, and the reason for each repository that is unreachable, by its id."""

    packages: Packages
    unreachable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PaperResolution:
    """The ``problems`` of transactions that hosts could not make, as the solver reports them.

    Transactions in ``unresolved`` were not judged, for the ``reason``. The solver has found no problem of others.
    """

    problems: Mapping[PaperTransaction, str]
    unresolved: tuple[PaperTransaction, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PackageFindings:
    """The problems of the packages that a publication wants, and warnings; ``checked`` demands were looked up."""

    problems: tuple[Problem, ...] = ()
    checked: int = 0

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
        """The problems that do not."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)


def unreachable_warnings(offers: Offers) -> Iterator[Problem]:
    """Yield a warning for each unreachable repository."""
    for name, reason in sorted(offers.unreachable.items()):
        yield Problem(
            f"the repository {name} cannot be reached: {reason}; packages that may be in it are not checked",
            severity=Severity.WARNING,
        )


def availability_problems(demands: Iterable[Demand], offers: Offers, arch: str) -> Iterator[Problem]:
    """Yield a problem for each demand that no available package meets: warnings if a repository is unreachable."""
    for demand in sorted(demands):
        available = offers.packages.get(demand.package, ())
        _, missing = select(available, {demand.package: demand.version or None}, arch=arch)
        for sentence in missing:
            architecture = f" for {arch}" if arch and not available else ""
            problem = Problem(
                f"{sentence}{architecture}; publish it, or correct the version in the tree", path=demand.path
            )
            yield replace(problem, severity=Severity.WARNING) if offers.unreachable else problem


def of_absent_hosts(problem: Problem, hosts: Sequence[Identity]) -> Problem:
    """Return a problem of absent hosts alone as a warning with advice about these."""
    where = listing(sorted(map(str, hosts)), _NAMED)
    advice = "absent; if a host is gone for good, use 'zkdeployment forget HOST'"
    return replace(problem, message=f"{problem.message} ({where}: {advice})", severity=Severity.WARNING)


def transaction_problems(
    groups: Mapping[PaperTransaction, Sequence[Identity]],
    reasons: Mapping[PaperTransaction, str],
    hosts: Iterable[HostSoftware],
) -> Iterator[Problem]:
    """Yield a problem for each transaction that cannot be resolved; ``reasons`` are the solver's words."""
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
    """Return a warning that the packages for an architecture (empty: unknown) were not looked up."""
    hosts = f"hosts of the architecture {arch}" if arch else "hosts of unknown architecture"
    return Problem(f"the packages of {hosts} are not checked: {reason}", severity=Severity.WARNING)


def refusal_of(tip: Revision, findings: PackageFindings) -> str | None:
    """Return why a tip is refused, one problem on each line after the first; ``None`` if there are no problems."""
    if not findings.errors:
        return None
    lines = "\n  ".join(map(str, findings.errors))
    return (
        f"{tip} is not published: hosts could not install its packages; if it is to be published nevertheless, use"
        f" --allow-package-problems:\n  {lines}"
    )

"""The tree's repository in memory (implements ``ports.TreeSource``), and the trees that a seed makes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from simulation.group_stops import FIX, PATCHED, SYSTEM, documents
from support.hosts.packages import AvailablePackage
from zkdeployment.base.errors import SourceError, TreeError
from zkdeployment.base.publication import Origin
from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.publishing.targets.compilation import order_problems
from zkdeployment.publishing.targets.compiler import compile_targets, wanted_for
from zkdeployment.tree.layers import merge
from zkdeployment.tree.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simulation.check_plans import CheckPlan
    from simulation.systems import SystemPlan
    from zkdeployment.base.deployment import DesiredState
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Package
    from zkdeployment.base.publication import Targets
    from zkdeployment.tree.values import Tree

#: The versions of packages that the packages' repository has.
VERSIONS = ("1.0", "2.0", "3.0")

#: A version that it does not have.
MISSING_VERSION = "9.9"


#: Services whose top-level node is written only while they are planned, or once it was published.
EXTRA = 6


@dataclass
class ServicePlan:
    """A service as a tree has it: its version, and the number of instances by target."""

    version: str
    targets: dict[str, int]
    text: str = ""
    patches: tuple[str, ...] = ()
    rerun: str = ""
    undeploy: str = ""
    after: tuple[int, ...] = ()
    reboots: bool = False


@dataclass
class TreePlan:
    """A tree: services by number, the version of each role's controller, and the strategy's document.

    ``stopping`` are the groups whose failures stop only the group; ``None``: there are no groups. ``systems`` are
    the system nodes by name. ``checks`` are the documents of checks, if there are any.
    """

    services: dict[int, ServicePlan] = field(default_factory=dict)
    controllers: dict[str, str] = field(default_factory=dict)
    strategy: str | None = None
    stopping: frozenset[str] | None = None
    systems: dict[str, SystemPlan] = field(default_factory=dict)
    checks: CheckPlan | None = None

    def copy(self) -> TreePlan:
        """Return an independent copy."""
        services = {
            number: replace(service, targets=dict(service.targets)) for number, service in self.services.items()
        }
        return replace(self, services=services, controllers=dict(self.controllers), systems=dict(self.systems))

    def render(self, empty: Iterable[int], spelled: Callable[[int, str], str]) -> str:
        """Return the tree's text: each service has a top-level node of its own.

        ``spelled`` returns the version of a service by number as the tree has it. ``empty`` are the services whose
        node is written even if they are not planned: what is in no file stays.
        """
        lines: list[str] = []
        for number in sorted({*self.services, *empty}):
            lines.append(f"/s{number}")
            service = self.services.get(number)
            if service is None:
                continue
            lines += [f"  /app : app{number}", f"    version = '{spelled(number, service.version)}'"]
            lines += [f"    {name} = {value!r}" for name, value in self._properties(service)]
            lines.append("    /deploy")
            for target, count in sorted(service.targets.items()):
                lines += [f"      /{target}", f"        n = {count}"]
        lines.append("/roles")
        for role, version in sorted(self.controllers.items()):
            lines += [f"  /{role} : ctl-{role}", f"    version = '{version}'"]
        if self.systems:
            lines.append("/os")
        for name, system in sorted(self.systems.items()):
            lines += system.render(name)
        return "\n".join(lines) + "\n"

    def _properties(self, service: ServicePlan) -> Iterator[tuple[str, object]]:
        """Yield the optional properties of a service: no order between services is planned with a strategy."""
        if service.text:
            yield "text", service.text
        if service.patches:
            yield "patches", [f"{name} {PATCHED}" for name in service.patches]
        if service.reboots:
            yield "reboot", "allowed"
        if service.rerun:
            yield "rerun", service.rerun
        if self.strategy is None:
            if service.undeploy:
                yield "undeploy", service.undeploy
            after = [f"/s{number}/app" for number in service.after if number in self.services]
            if after:
                yield "deploy_after", after


@dataclass(frozen=True)
class Commit:
    """A revision."""

    revision: str
    text: str
    strategy: str | None
    number: int
    parents: frozenset[str]
    time: float
    stopping: frozenset[str] | None = None
    checks: CheckPlan | None = None
    _wanted: dict[Identity, DesiredState] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def tree(self) -> Tree:
        """The tree."""
        return merge([parse("a.zk", self.text)]).tree

    @cached_property
    def targets(self) -> Targets:
        """The targets of the tree; raises ``TreeError`` if the tree is invalid."""
        targets, problems = compile_targets(self.tree)
        if problems:
            raise TreeError("; ".join(map(str, problems)))
        return targets

    @cached_property
    def has_circle(self) -> bool:
        """Whether services wait for each other, whereupon the syncer refuses the tree."""
        return bool(order_problems(self.targets, self.services))

    @cached_property
    def tops(self) -> frozenset[str]:
        """The top-level nodes of the text."""
        return frozenset(line for line in self.text.splitlines() if line.startswith("/"))

    @cached_property
    def services(self) -> frozenset[str]:
        """The paths of all services with targets."""
        return frozenset(entry.path for entries in self.targets.values() for entry in entries)

    def differs(self, other: Commit) -> bool:
        """Whether another commit has other text, other groups or another strategy."""
        return (self.text, self.strategy, self.stopping) != (other.text, other.strategy, other.stopping)

    @cached_property
    def documents(self) -> list[SourceFile]:
        """The documents of the groups."""
        return [] if self.stopping is None else documents(self.text, self.stopping)

    def wanted(self, identity: Identity) -> DesiredState:
        """Return the targets of a host."""
        if identity not in self._wanted:
            self._wanted[identity] = wanted_for(identity, self.targets)
        return self._wanted[identity]

    def text_of(self, path: str) -> object:
        """Return the property ``text`` of a service."""
        return self.tree.nodes[path].get("text")


class SimulatedRepository:
    """Commits and the branch's tip, which may be set back. ``take_time`` lets the caller wait.

    ``published_tops`` are the top-level nodes that were published and not pruned, ``without_file`` the numbers of
    services whose nodes are in no file any more. ``rollbacks`` are the coordinator's commits, with their rollouts,
    ``further`` the documents that each revision has.
    """

    def __init__(self, services: int, roles: Sequence[str], now: Callable[[], float]) -> None:
        self.commits: dict[str, Commit] = {}
        self.tip: Commit | None = None
        self._now = now
        self._services = services
        self.spelled: Callable[[int, str], str] = lambda _number, version: version
        self.published_tops: set[str] = set()
        self.without_file: set[int] = set()
        self.further: list[SourceFile] = []
        self.rollbacks: dict[str, str] = {}
        names = [*(f"app{number}" for number in range(services + EXTRA)), *(f"ctl-{role}" for role in roles)]
        names += [SYSTEM.name, FIX]
        self._offers = {
            name: {
                offer.package: offer
                for version in VERSIONS
                if (offer := AvailablePackage(name=name, version=version))
            }
            for name in names
        }
        self.packages = {package: offer for offers in self._offers.values() for package, offer in offers.items()}

    def offers(self, names: Iterable[str]) -> dict[Package, AvailablePackage]:
        """Return the available packages with these names."""
        return {package: offer for name in names for package, offer in self._offers.get(name, {}).items()}

    def push(self, plan: TreePlan, *, rewritten: bool = False) -> Commit:
        """Commit a tree on the tip, or as a new history."""
        if rewritten:
            self.tip = None
        self.without_file -= plan.services.keys()
        self.tip = self.commit_of(plan)
        self.commits[self.tip.revision] = self.tip
        return self.tip

    def commit_of(self, plan: TreePlan) -> Commit:
        """Return the commit that a push of this plan would make."""
        number = len(self.commits) + 1
        published = (int(top[2:]) for top in self.published_tops if top.startswith("/s"))
        named = {*range(self._services), *published} - self.without_file
        text = plan.render(named, self.spelled)
        revision = hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()
        above = frozenset() if self.tip is None else self.tip.parents | {self.tip.revision}
        return Commit(revision, text, plan.strategy, number, above, self._now(), plan.stopping, plan.checks)

    def rewind(self, commit: Commit) -> None:
        """Set the branch back to a commit."""
        self.tip = commit

    def trailer(self, revision: str, _key: str) -> str | None:
        """Return the rollout after whose failure a commit was made; ``None`` for a commit of a person."""
        return self.rollbacks.get(revision)

    def contains(self, revision: str, commit: str) -> bool:
        """Return whether a revision is a commit or descends from it."""
        return revision in self.commits and self.descends(revision, commit)

    # ports.TreeSource

    def fetch(self) -> str:
        """Return the tip."""
        assert self.tip is not None
        return self.tip.revision

    def files(self, revision: str) -> Sequence[SourceFile]:
        """Return the files of a revision."""
        commit = self._commit(revision)
        files = [SourceFile("a.zk", commit.text.encode()), *commit.documents, *self.further]
        if commit.checks is not None:
            files.append(commit.checks.file)
        if commit.strategy is not None:
            files.append(SourceFile("strategy.yaml", commit.strategy.encode()))
        return files

    def origin(self, revision: str) -> Origin:
        """Return who made a revision."""
        commit = self._commit(revision)
        return Origin("ann <ann@example.com>", f"revision {commit.number}", commit.time)

    def newer(self, revision: str, than: str, most: int) -> Sequence[CommitSummary]:
        """Return the newest commits up to a revision that another one lacks, newest first."""
        tip, other = self._commit(revision), self.commits.get(than)
        lacking = {revision} if other is None else {revision, *tip.parents} - {than, *other.parents}
        commits = sorted(map(self._commit, lacking), key=lambda commit: commit.number, reverse=True)
        return [
            CommitSummary(commit.revision, "ann", f"revision {commit.number}", commit.time)
            for commit in commits[:most]
        ]

    def descends(self, revision: str, ancestor: str) -> bool:
        """Return whether a revision is another one or descends from it."""
        return revision == ancestor or ancestor in self._commit(revision).parents

    def _commit(self, revision: str) -> Commit:
        if revision not in self.commits:
            raise SourceError(f"the repository has no revision {revision}")
        return self.commits[revision]

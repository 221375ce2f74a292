"""Whether a revision is to be published, and what that changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.errors import TreeError
from zkdeployment.model.cluster import Cluster, ClusterState
from zkdeployment.model.problem import Problem, Severity
from zkdeployment.model.publication import LiveTree, Publication, Published
from zkdeployment.planning.convergence import is_converged
from zkdeployment.planning.review import Review, place
from zkdeployment.planning.targets import compile_targets, host_problems
from zkdeployment.rollout.changes import StrategyChange
from zkdeployment.tree.diff import describe_change, diff
from zkdeployment.tree.layers import desired_tree, lock_roles, select_tops, without_reserved

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Host, Identity
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import LiveNode, Targets
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Tree
    from zkdeployment.rollout.state import RolloutState


class PublicationVerdict(Enum):
    """Whether a branch's tip is to be published."""

    PUBLISH = "publish"
    UP_TO_DATE = "up to date"
    ALL_STOP = "all stop"
    NOT_CONVERGED = "not converged"


@dataclass(frozen=True, slots=True)
class PublishedState:
    """What stands in ZooKeeper before a publication, beside the tree; without ``/hosts`` there is no cluster.

    ``absent`` are hosts that are known but not registered. ``strategy`` is the published one, ``rollout`` the
    newest that was begun of what is published, ``stops`` which stops are on record, as in ``RequestState``.
    """

    cluster: Cluster | None
    published: Published = Published()  # noqa: RUF009  it cannot be changed
    hosts: Sequence[Host] = ()
    absent: Sequence[KnownHost] = ()
    stops: int | None = None
    strategy: Strategy | None = None
    rollout: RolloutState | None = None

    @property
    def known(self) -> tuple[Identity, ...]:
        """All hosts, those that are absent included."""
        return (*(host.identity for host in self.hosts), *(host.identity for host in self.absent))


def judge(
    published_state: PublishedState, *, tip: Revision, force: bool = False, prune: bool = False, firm: bool = False
) -> PublicationVerdict:
    """Say what is to become of the branch's ``tip``.

    A publication that was interrupted is finished whatever the hosts have: they wait for it. A held cluster gets
    the tip in any case, which ends the hold; one that is ``firm`` because an operator recorded the hold is left
    alone until there is a new tip. With ``prune`` there may be something to do at the published tip, too.
    A version that was set by hand is published as soon as it is the tip; an import by hand ends no rollout.
    """
    cluster, published = published_state.cluster, published_state.published.revision
    if is_stopped(cluster, force=force):
        return PublicationVerdict.ALL_STOP
    if firm and not force and published == tip and cluster == Cluster(False):
        return PublicationVerdict.UP_TO_DATE
    if cluster is None or force or cluster.state in (ClusterState.HELD, ClusterState.IMPORTING):
        return PublicationVerdict.PUBLISH
    if is_up_to_date(published_state, tip) and not prune:
        return PublicationVerdict.UP_TO_DATE
    if cluster.version == tip != published and not published_state.published.governs(cluster):
        return PublicationVerdict.PUBLISH
    return PublicationVerdict.PUBLISH if is_converged(published_state) else PublicationVerdict.NOT_CONVERGED


def is_stopped(cluster: Cluster | None, *, force: bool = False) -> bool:
    """Whether nothing may be published, so that the repository need not be asked."""
    return cluster is not None and cluster.state is ClusterState.STOPPED and not force


def is_up_to_date(published_state: PublishedState, tip: Revision) -> bool:
    """Whether the tip is what is published, so that the hosts need not be asked."""
    return published_state.cluster == Cluster(tip) and published_state.published.revision == tip


@dataclass(frozen=True, slots=True)
class Draft:
    """A publication that is ready, the live tree and the strategy it changes, and what is dubious about it.

    ``before`` are the targets of the live tree, ``affected`` the names of those that are to run something else.
    """

    publication: Publication
    live: LiveTree
    before: Targets
    affected: tuple[str, ...]
    warnings: tuple[Problem, ...]
    strategy: StrategyChange = StrategyChange()  # noqa: RUF009  it cannot be changed

    @property
    def sentence(self) -> str:
        """What it changes, in a few words."""
        change = self.publication.change
        counts = ((len(change.create), "added"), (len(change.update), "changed"), (len(change.delete), "deleted"))
        nodes = ", ".join(f"{number} {what}" for number, what in counts if number)
        strategy = f"; strategy: {self.strategy.kind}" if self.strategy else ""
        return f"nodes: {nodes or 'no change'}; targets: {len(self.affected)} changed{strategy}"

    def describe(self) -> Iterator[str]:
        """Say line by line what it changes."""
        yield from describe_change(self.publication.change, self.live.tree)
        for name in self.affected:
            yield f"target {name}"
        yield from self.strategy.describe()

    def over(self, found: Mapping[str, LiveNode]) -> Draft:
        """Return the same for when only the nodes that it touches, and nothing else, were looked at."""
        change = self.publication.change
        versions = {path: found[path].version for path in (*change.update, *change.delete)}
        return replace(
            self, publication=replace(self.publication, versions=versions, touched=frozenset(self.affected))
        )


def draft(
    reviewed: Review, live: LiveTree, published_state: PublishedState, *, revision: Revision, prune: bool = False
) -> Draft:
    """Work out the publication of a reviewed tree over the live one.

    Targets are compiled from the whole tree as it will be live, and judged for every known host. Nodes that
    cannot be deleted because of ephemeral ones below stay. Top-level nodes that only an unfinished publication
    made are deleted unless a file has them; with ``prune`` all managed ones are. Raises ``TreeError`` with all
    errors.
    """
    before, _ = compile_targets(live.tree)
    return _draft(reviewed, live, before, published_state, revision, prune=prune)


def draft_over_text(
    reviewed: Review, last: Review, published_state: PublishedState, *, revision: Revision
) -> Draft:
    """Work out the same for a live tree that is what the ``last`` reviewed text says, as far as that goes.

    What it touches is to be looked at before it is published; see ``Draft.over``.
    """
    live = LiveTree(without_reserved(last.linted.tree))
    published_state = replace(published_state, strategy=last.documents.strategy())
    return _draft(reviewed, live, last.targets, published_state, revision)


def _draft(
    reviewed: Review,
    live: LiveTree,
    before: Targets,
    published_state: PublishedState,
    revision: Revision,
    *,
    prune: bool = False,
) -> Draft:
    check(reviewed.problems, revision)
    text = without_reserved(reviewed.linted.tree)
    known = published_state.published.managed
    forsaken = known - text.nodes.keys()
    begun = published_state.published.begun - text.nodes.keys()
    pruned = begun | forsaken if prune else begun
    tree = desired_tree(live.tree, reviewed.linted.merged, pinned=live.pinned, pruned=pruned)
    targets, conflicts = reviewed.targets, reviewed.conflicts
    if tree != text:
        targets, conflicts = compile_targets(tree)
    found = (*conflicts, *_host_problems(targets, published_state))
    check([place(problem, reviewed.linted) for problem in dict.fromkeys(found)], revision)
    change = diff(live.tree, tree)
    left = forsaken - change.delete
    publication = Publication(
        revision=revision,
        change=change,
        targets=targets,
        roles=lock_roles(tree) | lock_roles(reviewed.linted.tree),
        expected=published_state.cluster,
        stops=published_state.stops,
        published=published_state.published,
        versions={path: live.versions[path] for path in (*change.update, *change.delete) if path in live.versions},
        exact=reviewed.fingerprint if _is_exact(tree, text) and targets == reviewed.targets else None,
        managed=frozenset(without_reserved(reviewed.linted.merged.base).tops) | known - change.delete,
        leftovers=begun - change.delete,
        strategy=reviewed.documents.strategy(),
    )
    affected = sorted(name for name in {*before, *targets} if before.get(name) != targets.get(name))
    warnings = [problem for problem in reviewed.problems if problem.severity is Severity.WARNING]
    warnings += (replace(problem, severity=Severity.WARNING) for problem in reviewed.spare_strategies)
    warnings += _forsaken(text, targets, left)
    if affected and published_state.cluster == Cluster(revision):
        words = f"{revision} is what hosts have already: they take up what changes for them with the next revision"
        warnings.append(Problem(words, severity=Severity.WARNING))
    strategy = StrategyChange(published_state.strategy, publication.strategy)
    return Draft(publication, live, before, tuple(affected), tuple(warnings), strategy)


def _host_problems(targets: Targets, published_state: PublishedState) -> Iterator[Problem]:
    """Find what the agents of hosts would refuse, also of those that are absent: they come back."""
    registered = host_problems(targets, (host.identity for host in published_state.hosts))
    yield from registered
    for known in published_state.absent:
        for problem in host_problems(targets, [known.identity]):
            if problem not in registered:
                host = known.identity
                more = f"{host} is absent; if it is gone for good, 'zkdeployment forget {host.id}'"
                yield replace(problem, message=f"{problem.message}; {more}")


def _is_exact(tree: Tree, text: Tree) -> bool:
    """Whether a tree has in the text's top-level nodes just what the text has."""
    return tree == text or select_tops(tree, text.tops) == text


def _forsaken(text: Tree, targets: Targets, left: Collection[str]) -> Iterator[Problem]:
    """Warn of top-level nodes that are in no file: those whose file is gone, and those that deploy something."""
    services = {one.path for assignments in targets.values() for one in assignments}
    deploying = {f"/{path.split('/', 2)[1]}" for path in services}
    for top in sorted({*left, *deploying} - text.nodes.keys()):
        words = f"{top} is in no file{' any more' if top in left else ''} and stays as it is"
        if top in deploying:
            words += ", with all it deploys; to end that, put it into one, empty"
        if top in left:
            words += "; 'zkdeployment sync --prune' removes it"
        yield Problem(words, path=top, severity=Severity.WARNING)


def check(problems: Iterable[Problem], revision: Revision) -> None:
    """Raise ``TreeError`` with all that forbid publication, one a line."""
    errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        raise TreeError("\n  ".join([f"the tree of revision {revision} is not published, for {count}:", *errors]))

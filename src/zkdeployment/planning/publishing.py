"""Whether a revision is to be published, and what that changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.errors import TreeError
from zkdeployment.model.cluster import Cluster, ClusterState
from zkdeployment.model.problem import Problem, Severity
from zkdeployment.model.publication import LiveTree, Publication
from zkdeployment.planning.review import Review, place
from zkdeployment.planning.targets import compile_targets, host_problems
from zkdeployment.tree.diff import describe, diff
from zkdeployment.tree.layers import desired, lock_roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.tree import Tree


class Verdict(Enum):
    """Whether a branch's tip is to be published."""

    PUBLISH = "publish"
    UP_TO_DATE = "up to date"
    ALL_STOP = "all stop"
    NOT_CONVERGED = "not converged"


def judge(
    cluster: Cluster | None,
    hosts: Iterable[Host],
    *,
    tip: Revision,
    published: Revision | None,
    force: bool = False,
    firm: bool = False,
) -> Verdict:
    """Say what is to become of the branch's ``tip``.

    ``cluster`` is ``None`` where there is no ``/hosts`` yet; ``published`` is the revision whose tree and targets
    are wholly published. A publication that was interrupted is finished whatever the hosts have: they wait for it.
    A held cluster gets the tip in any case, which ends the hold; one that is ``firm`` because an operator recorded
    the hold is left alone until there is a new tip.
    """
    if is_stopped(cluster, force=force):
        return Verdict.ALL_STOP
    if firm and not force and published == tip and cluster == Cluster(False):
        return Verdict.UP_TO_DATE
    if cluster is None or force or cluster.state in (ClusterState.HELD, ClusterState.IMPORTING):
        return Verdict.PUBLISH
    if cluster.version == tip:
        return Verdict.UP_TO_DATE if published == tip else Verdict.PUBLISH
    return Verdict.NOT_CONVERGED if behind(cluster, hosts) else Verdict.PUBLISH


def is_stopped(cluster: Cluster | None, *, force: bool = False) -> bool:
    """Whether nothing may be published, so that the repository need not be asked."""
    return cluster is not None and cluster.state is ClusterState.STOPPED and not force


def behind(cluster: Cluster, hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return the hosts that are not at the cluster version; a host without a version is not."""
    return tuple(host for host in hosts if host.version != cluster.version)


def refusal(cluster: Cluster, hosts: Iterable[Host], tip: Revision) -> str:
    """Say which hosts are in the way of a publication."""
    late = behind(cluster, hosts)
    listed = ", ".join(f"{host.identity} has {host.version or 'no version'}" for host in late)
    return (
        f"not converged, so {tip} is not published: expected version {cluster.version}, but {listed};"
        " wait for these hosts or use --force"
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """A publication that is ready, the live tree it changes, and what is dubious about it."""

    publication: Publication
    live: LiveTree
    warnings: tuple[Problem, ...]

    @property
    def sentence(self) -> str:
        """What it changes, in a few words."""
        change = self.publication.change
        counts = ((len(change.create), "added"), (len(change.update), "changed"), (len(change.delete), "deleted"))
        nodes = ", ".join(f"{number} {what}" for number, what in counts if number)
        return f"nodes: {nodes or 'no change'}; targets: {len(self.affected)} changed"

    @property
    def affected(self) -> tuple[str, ...]:
        """The names of the targets that are to run something else than the live tree says."""
        before, _ = compile_targets(self.live.tree)
        after = self.publication.targets
        return tuple(sorted(name for name in {*before, *after} if before.get(name) != after.get(name)))

    def describe(self) -> Iterator[str]:
        """Say line by line what it changes."""
        yield from describe(self.publication.change, self.live.tree)
        for name in self.affected:
            yield f"target {name}"


def draft(
    reviewed: Review, live: LiveTree, hosts: Sequence[Host], *, revision: Revision, expected: Cluster | None
) -> Draft:
    """Work out the publication of a reviewed tree over the live one.

    Targets are compiled from the whole tree as it will be live, and judged for every registered host. Nodes that
    cannot be deleted because of ephemeral ones below stay. Raises ``TreeError`` with all errors.
    """
    check(reviewed.problems, revision)
    tree = desired(live.tree, reviewed.linted.merged, pinned=live.pinned)
    change = diff(live.tree, tree)
    targets, conflicts = compile_targets(tree)
    found = (*conflicts, *host_problems(targets, (host.identity for host in hosts)))
    check([place(problem, reviewed.linted) for problem in dict.fromkeys(found)], revision)
    publication = Publication(
        revision=revision,
        change=change,
        targets=targets,
        roles=lock_roles(tree) | lock_roles(reviewed.linted.tree),
        expected=expected,
        versions={path: live.versions[path] for path in (*change.update, *change.delete)},
    )
    warnings = [problem for problem in reviewed.problems if problem.severity is Severity.WARNING]
    return Draft(publication, live, (*warnings, *_forsaken(reviewed.linted.tree, targets)))


def _forsaken(text: Tree, targets: Targets) -> Iterator[Problem]:
    """Warn of top-level nodes that deploy something, but are in no file: their file may have been removed."""
    deploying = {f"/{one.path.split('/')[1]}" for assignments in targets.values() for one in assignments}
    for top in sorted(deploying - text.nodes.keys()):
        words = f"{top} is in no file and stays as it is, with all it deploys; to end that, put it into one, empty"
        yield Problem(words, path=top, severity=Severity.WARNING)


def check(problems: Iterable[Problem], revision: Revision) -> None:
    """Raise ``TreeError`` with all that forbid publication, one a line."""
    errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        raise TreeError("\n  ".join([f"the tree of revision {revision} is not published, for {count}:", *errors]))

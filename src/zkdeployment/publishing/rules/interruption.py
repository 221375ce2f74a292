"""The targets and the text that hosts were last ordered to deploy, if the live tree may differ from them.

The live tree differs after an interrupted publication or import, and after an import by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import BY_HAND, INITIAL, short
from zkdeployment.tree.layers import desired_tree, select_tops

if TYPE_CHECKING:
    from collections.abc import Container

    from zkdeployment.base.cluster import Cluster, Revision
    from zkdeployment.base.publication import Published, Targets
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.tree.values import LiveTree, Tree


def completed_targets(live: Targets, published: Targets, files: Container[str]) -> Targets:
    """Return the targets of the last complete publication.

    Services at the paths in ``files`` come from the ``published`` text, because the live tree may have parts of an
    interrupted publication. Other services, which are in no file, come from the live tree.
    """
    return {
        name: (
            *published.get(name, ()),
            *(assignment for assignment in live.get(name, ()) if assignment.path not in files),
        )
        for name in {*published, *live}
    }


def common_targets(first: Targets, second: Targets) -> Targets:
    """Return the common part of two targets: each service with the smaller number of instances."""
    common = {}
    for name in first.keys() & second.keys():
        others = {assignment.path: assignment for assignment in second[name]}
        common[name] = tuple(
            min(assignment, others[assignment.path], key=lambda either: either.n)
            for assignment in first[name]
            if assignment.path in others
        )
    return common


def ordered_revision(published: Published) -> Revision | None:
    """Return the revision that hosts were last ordered to deploy, if the live tree may differ from it."""
    return published.ordered if published.revision is None else None


def is_incomplete(cluster: Cluster | None) -> bool:
    """Whether a publication or an import is incomplete, so that the live tree has only parts of it."""
    return cluster is not None and cluster.importing is not None


def ordered_targets(
    published: Published, cluster: Cluster | None, live: Targets, reviewed: Review, last: Review | None
) -> Targets | None:
    """Return the targets that hosts were last ordered to deploy, if the ``live`` targets may differ from them.

    ``last`` is the text of ``ordered_revision``, ``None`` if it cannot be read; ``reviewed`` is the text of the
    coming publication. Returns ``None`` if the live tree is the tree of the last publication, or if no other text
    is known.
    """
    if published.revision is not None:
        return None
    if published.ordered is None:
        # Before the first publication by this program, hosts have the live tree.
        return completed_targets(live, {}, reviewed.linted.tree.nodes) if is_incomplete(cluster) else None
    if last is None:
        return None
    files = last.linted.tree.nodes.keys() | reviewed.linted.tree.nodes.keys()
    return completed_targets(live, last.targets, files)


def ordered_tree(
    published: Published, cluster: Cluster | None, live: LiveTree, last: Review | None
) -> Tree | None:
    """Return the tree that hosts were last ordered to deploy, if the live tree may differ from it.

    ``last`` is as in ``ordered_targets``. Returns ``None`` as that function does, and if the cluster version was
    set by hand, because hosts then deploy the live tree.
    """
    if published.revision is not None or _is_set_by_hand(published, cluster):
        return None
    if last is not None:
        begun = published.begun - frozenset(last.linted.tree.tops)
        return desired_tree(live.tree, last.linted.merged, pinned=live.pinned, pruned=begun)
    if published.ordered is None and is_incomplete(cluster):
        return select_tops(live.tree, frozenset(live.tree.tops) - published.begun)
    return None


def _is_set_by_hand(published: Published, cluster: Cluster | None) -> bool:
    return cluster is not None and cluster.version not in {None, False, published.ordered, INITIAL}


def incompleteness(published: Published, cluster: Cluster | None, *, is_known: bool) -> str | None:
    """Return the warning that the live tree has only parts of a publication or an import, or ``None``.

    ``is_known``: the tree that hosts were last ordered to deploy is known.
    """
    if cluster is None or cluster.importing is None:
        return None
    of = "an import by hand" if cluster.importing == BY_HAND else f"the publication of {short(cluster.importing)}"
    sentence = f"{of} is not complete: it is under way, or was interrupted"
    if published.ordered is None or _is_set_by_hand(published, cluster):
        return sentence
    last = short(published.ordered)
    if is_known:
        return f"{sentence}; the plan shows what changes for hosts, which were last ordered to deploy {last}"
    return (
        f"{sentence}; hosts were last ordered to deploy {last}, whose tree cannot be read, so the plan may lack"
        " changes that are in the live tree already; name a configuration with the tree's repository with"
        " --config, or run the command in a clone of that repository"
    )

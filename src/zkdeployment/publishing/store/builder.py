"""Builds the transactions that write a publication or an import, as values; ``store`` commits them.

A publication consists of sections, each of which reads its nodes and returns its operations.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import BY_HAND, INITIAL, Cluster, ClusterEvent, advance
from zkdeployment.base.errors import ConflictError
from zkdeployment.publishing.store.assignments import walk
from zkdeployment.publishing.store.cluster import changing_cluster, cluster_of, decode_published, setting_cluster
from zkdeployment.publishing.store.documents import After, Before, SectionWriter
from zkdeployment.publishing.store.sections import existing, invalidation, opened_managed, tree_operations
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import (
    TRANSACTION_LIMIT,
    Check,
    Operation,
    Set,
    check_data,
    check_sizes,
    make_skeleton,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from zkdeployment.publishing.records import Publication
    from zkdeployment.tree.values import TreeChange
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session

#: A transaction blocks the whole ensemble; this many small operations take about 20 ms.
OPERATIONS_LIMIT = 2000

#: The most operations of each transaction of a larger publication. While ZooKeeper executes one, the next ones are
#: encoded, sent and checked; smaller and larger ones take longer.
_SHARE = 500

#: Bytes for the operations that every transaction of a large publication has in addition to its share.
_RESERVE = 4096


def read_before(session: Session, publication: Publication, sections: Sequence[SectionWriter]) -> Before:
    """Read the nodes of all sections, after creating missing nodes on which every client relies.

    Raises ``ConflictError`` if the fleet or the last publication is not the one that the publication replaces.
    """
    reads = [section.reads(publication) for section in sections]
    wanted = [*paths.SKELETON, *dict.fromkeys(path for one in reads for path in one.nodes)]
    listed = [*dict.fromkeys(path for one in reads for path in one.lists)]
    nodes, children = session.look(wanted, listed)
    if None in nodes[: len(paths.SKELETON)]:
        make_skeleton(session)
        nodes, children = session.look(wanted, listed)
    below = walk(session, [path for one in reads for path in one.below])
    before = Before(
        session,
        {**below, **dict(zip(wanted, nodes, strict=True))},
        {path: names or () for path, names in zip(listed, children, strict=True)},
    )
    _require_expected(before, publication)
    return before


def _require_expected(before: Before, publication: Publication) -> None:
    hosts, targets, stops = (existing(before, path) for path in (paths.HOSTS, paths.TARGETS, paths.STOPS))
    expected = publication.expected or Cluster(INITIAL)  # the state in which /hosts is created
    current = cluster_of(hosts)
    if current != expected:
        raise ConflictError(f"the cluster version changed: expected {expected}, found {current}")
    if publication.published is not None and publication.published.stamp != targets.version:
        raise ConflictError("another publication, or an import by hand, changed the targets in the meantime")
    if publication.stops not in {None, stops.version}:
        raise ConflictError("the fleet was stopped, or resumed, in the meantime")


def final_publication(publication: Publication, before: Before, sections: Sequence[SectionWriter]) -> After:
    """Return a publication with its sequence, and that of the last one that changed something for hosts.

    The sequence is above all earlier ones, also if some of their records were lost. The last publication counts as
    in its state at the time of the decision.
    """
    last = decode_published(existing(before, paths.TARGETS))
    recorded = paths.sequences(before.children[paths.HISTORY])
    sequence = max(publication.sequence, max(last.sequence, *recorded, 0) + 1)
    concerns_hosts = not publication.repeats or any(
        section.concerns_hosts(before, publication) for section in sections
    )
    since = sequence if concerns_hosts else (publication.published or last).effective_since
    return After(publication, sequence, since)


def transactions_for(
    before: Before, after: After, sections: Sequence[SectionWriter], acl: int = 0
) -> Iterator[Sequence[Operation]]:
    """Yield the transactions that write a publication, in order, for ``commit_all_but_last``.

    A publication that fits is one transaction. Otherwise the first one invalidates the targets, lists the new
    top-level nodes and sets the mark ``importing``, which only the last one removes, with the new version: after a
    crash in between, no host deploys the partial publication, and the next one removes it. Each transaction fails
    unless ``/hosts`` is as the previous one left it. ``acl`` is the size of a node's access list in bytes. Raises
    ``TreeError``, before anything is written, if a node is too large.
    """
    made = [section.operations(before, after) for section in sections]
    work = [operation for one in made for operation in one.parts]
    closing = [operation for one in made for operation in one.closing]
    check_data(work)
    check_sizes(closing, acl)
    if _fits(whole := [*work, *closing], acl):
        yield whole
        return
    opening = [operation for one in made for operation in one.opening]
    yield from _in_chunks(before.nodes, opening, work, closing, acl)


def import_transactions(
    change: TreeChange,
    versions: Mapping[str, int],
    nodes: Mapping[str, Node | None],
    acl: int = 0,
    withholding: Sequence[Operation] = (),
) -> Sequence[Sequence[Operation]]:
    """Return the transactions that change the tree without publishing; one if it fits, none for an empty change.

    ``nodes`` are ``/hosts``, the targets' node and the node of managed names; ``withholding`` writes the services
    that are withheld. The first transaction invalidates the targets, which no longer match the tree: agents then
    read the tree itself. The retry of a host ends, because no revision is wholly published any more; of an import
    and a retry at the same time, the later one fails. If there are several transactions, the first one also sets
    the mark ``importing`` and lists the new top-level nodes, and the last one reverts that. After a crash in
    between, the next publication removes those nodes.
    """
    work = list(tree_operations(change, versions))
    if not work:
        return []
    check_data(work)
    hosts, targets, managed = (nodes[path] for path in (paths.HOSTS, paths.TARGETS, paths.MANAGED))
    first = [*withholding, *([] if targets is None else [invalidation(targets)])]
    if hosts is None:
        return list(chunks([*first, *work], acl))
    cluster = cluster_of(hosts)
    is_retried = cluster.retry is not None
    guard = changing_cluster(hosts, ClusterEvent.STOP) if is_retried else Check(paths.HOSTS, hosts.version)
    if _fits(whole := [guard, *first, *work], acl):
        return [whole]
    opened = advance(cluster, ClusterEvent.BEGIN, cluster.importing or BY_HAND)
    # The mark of an interrupted publication stays: only the next publication removes it.
    closed = advance(opened, ClusterEvent.REVERT) if cluster.importing is None else opened
    opening = [setting_cluster(hosts, opened), *([] if managed is None else [opened_managed(managed, change)])]
    begun, *others = _in_chunks(nodes, opening, work, [setting_cluster(hosts, closed)], acl)
    begun = [*begun, *first]
    check_sizes(begun, acl)
    return [begun, *others]


def _fits(operations: Sequence[Operation], acl: int) -> bool:
    """Whether operations fit into one transaction."""
    few = len(operations) <= OPERATIONS_LIMIT
    return few and sum(size(operation, acl) for operation in operations) <= TRANSACTION_LIMIT


def _in_chunks(
    nodes: Mapping[str, Node | None],
    opening: Sequence[Operation],
    work: Sequence[Operation],
    closing: Sequence[Operation],
    acl: int,
) -> Iterator[Sequence[Operation]]:
    """Yield the opening, the work in chunks that each check ``/hosts``, and the closing.

    The closing also gives nodes that only the opening wrote their former data.
    """
    check_sizes(opening, acl)
    yield opening
    hosts = nodes[paths.HOSTS]
    check = [] if hosts is None else [Check(paths.HOSTS, hosts.version + 1)]
    for chunk in chunks(work, acl, _SHARE):
        yield [*check, *chunk]
    opened = {operation.path: nodes[operation.path] for operation in opening}
    last = [_after_opening(operation, opened.keys()) for operation in closing]
    unclosed = sorted(opened.keys() - {operation.path for operation in closing})
    former = [Set(path, node.data, node.version + 1) for path in unclosed if (node := opened[path]) is not None]
    yield [*former, *last]


def _after_opening(operation: Operation, opened: Collection[str]) -> Operation:
    """Return a closing operation that expects one more version of a node that the opening wrote."""
    if operation.path in opened and isinstance(operation, Set):
        return operation._replace(version=operation.version + 1)
    return operation


def chunks(operations: Sequence[Operation], acl: int, most: int = sys.maxsize) -> Iterator[list[Operation]]:
    """Yield operations in lists that fit into one transaction each, ``most`` at the most."""
    chunk: list[Operation] = []
    taken, limit = 0, min(OPERATIONS_LIMIT, most)
    for operation in operations:
        more = size(operation, acl)
        if chunk and (taken + more > TRANSACTION_LIMIT - _RESERVE or len(chunk) >= limit):
            yield chunk
            chunk, taken = [], 0
        chunk.append(operation)
        taken += more
    if chunk:
        yield chunk

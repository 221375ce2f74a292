"""Builds the transactions that write a publication or an import, as values; ``store`` commits them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import BY_HAND, Cluster, ClusterEvent, advance
from zkdeployment.base.errors import ConflictError
from zkdeployment.publishing.section import SectionOperations
from zkdeployment.publishing.signing.statement import left_digest
from zkdeployment.publishing.store.assignments import encode_targets, is_same_work, node_paths
from zkdeployment.publishing.store.cluster import (
    RecordedStops,
    begun_tops,
    changing_cluster,
    decode_published,
    encode_managed,
    few_stops,
    forgetting_stops,
    made_tops,
    managed_tops,
    setting_cluster,
)
from zkdeployment.publishing.store.documents import (
    document_operations,
    document_path,
    encode_strategy,
    read_document_nodes,
)
from zkdeployment.publishing.store.service_order import order_operations
from zkdeployment.publishing.store.signing import SignedOperations
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import (
    ANY_VERSION,
    TRANSACTION_LIMIT,
    Check,
    Create,
    Delete,
    Operation,
    Set,
    check_data,
    check_sizes,
    make_skeleton,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.publishing.records import Publication
    from zkdeployment.tree.values import TreeChange, Value
    from zkdeployment.zookeeper.session import Session

#: A transaction blocks the whole ensemble; this many small operations take about 20 ms.
OPERATIONS_LIMIT = 2000

#: The properties of the targets' node that describe the last publication and stay valid after an import by hand.
_OF_THE_LAST = ("sequence", "since", "strategy", "ordered", "intents", "left")

#: Bytes for the operations that every transaction of a large publication has in addition to its share.
_RESERVE = 4096


@dataclass(frozen=True, slots=True)
class StoredPublication:
    """A snapshot of the nodes that a publication changes besides the tree.

    ``compiled`` maps the paths of targets to their nodes, ``documents`` those of documents. ``document_kinds`` are
    the kinds of documents that have a node. ``recorded`` are the sequences of the publications in
    the history, sorted. ``strategy`` is ``None`` if no strategy was ever published, ``order`` is ``None`` if no
    publication ever had an order between services. ``lacks_order``: the nodes of the last publication's order are
    missing. ``request`` is the operation
    that removes the request that this publication carries out, ``section`` writes the records of governance.
    ``signed`` is the node of the signed statement, ``None`` if nothing was ever signed; ``signing`` writes it and
    its buckets. ``buckets`` are the nodes of the buckets that were asked for, by name. ``encoded`` are the data of
    the publication's targets that were encoded already, by the paths of their nodes.
    """

    hosts: Node
    targets: Node
    managed: Node
    compiled: Mapping[str, Node]
    documents: Mapping[str, Node]
    document_kinds: frozenset[str]
    role_locks: frozenset[str]
    stops: RecordedStops
    recorded: tuple[int, ...]
    strategy: Node | None = None
    order: Node | None = None
    lacks_order: bool = False
    request: Operation | None = None
    section: SectionOperations = SectionOperations()  # noqa: RUF009  it cannot be changed
    signed: Node | None = None
    buckets: Mapping[str, Node | None] = field(default_factory=dict)
    signing: SignedOperations = SignedOperations()  # noqa: RUF009  it cannot be changed
    encoded: Mapping[str, bytes] = field(default_factory=dict)


def read_stored(session: Session, publication: Publication, buckets: Collection[str] = ()) -> StoredPublication:
    """Read the snapshot with the targets and the documents that may change, after creating missing nodes.

    ``buckets`` are the names of the buckets to read as well.
    """
    touched, documents = publication.touched, publication.touched_documents
    known = [] if touched is None else node_paths(touched)
    of_documents = [] if documents is None else [document_path(key) for key in sorted(documents)]
    of_buckets = {name: paths.bucket_path(name) for name in buckets}
    standing = paths.order_path(0 if publication.published is None else publication.published.effective_since)
    single = [paths.STRATEGY, paths.SIGNED, paths.ORDER, standing]
    wanted = [*paths.SKELETON, *single, *known, *of_documents, *of_buckets.values()]
    listed = [paths.ROLE_LOCKS, paths.HISTORY, paths.DOCUMENTS, paths.STOPS]
    nodes, (role_locks, history, kinds, stops) = session.look(wanted, listed)
    if None in nodes[: len(paths.SKELETON)]:
        make_skeleton(session)
        nodes, (role_locks, history, kinds, stops) = session.look(wanted, listed)
    nodes_by_path = dict(zip(wanted, nodes, strict=True))
    if touched is None:
        known = [f"{paths.TARGETS}/{name}" for name in session.children(paths.TARGETS) or ()]
        nodes_by_path |= dict(zip(known, session.get_many(known), strict=True))
    hosts, targets, managed, above_stops = (
        nodes_by_path[path] for path in (paths.HOSTS, paths.TARGETS, paths.MANAGED, paths.STOPS)
    )
    if hosts is None or targets is None or managed is None or above_stops is None:
        raise ConflictError(
            "nodes of zkdeployment were removed right after they were created; check what removes them"
        )
    return StoredPublication(
        hosts=hosts,
        targets=targets,
        managed=managed,
        compiled={path: node for path in known if (node := nodes_by_path[path]) is not None},
        documents=read_document_nodes(session)
        if documents is None
        else {path: node for path in of_documents if (node := nodes_by_path[path]) is not None},
        document_kinds=frozenset(kinds or ()),
        role_locks=frozenset(role_locks or ()),
        stops=few_stops(session, hosts.version, RecordedStops(tuple(stops or ()), above_stops.version)),
        recorded=tuple(paths.sequences(history or ())),
        strategy=nodes_by_path[paths.STRATEGY],
        signed=nodes_by_path[paths.SIGNED],
        order=nodes_by_path[paths.ORDER],
        lacks_order=bool(publication.order) and nodes_by_path[standing] is None,
        buckets={name: nodes_by_path[path] for name, path in of_buckets.items()},
    )


def transactions_for(
    publication: Publication, snapshot: StoredPublication, sequence: int, since: int, acl: int = 0
) -> Iterator[Sequence[Operation]]:
    """Return the transactions that write a publication, in order; commit the first and the last one alone.

    ``sequence`` and ``since`` are those of ``sequences_of``.

    A publication that fits is one transaction. Otherwise the first one invalidates the targets, lists the new
    top-level nodes and sets the mark ``importing``, which only the last one removes, with the new version: after a
    crash in between, no host deploys the partial publication, and the next one removes it. Each transaction fails
    unless ``/hosts`` is as the previous one left it. ``acl`` is the size of a node's access list in bytes. Raises
    ``TreeError``, before anything is written, if a node is too large.
    """
    for_hosts = _operations_for_hosts(publication, snapshot)
    documents = document_operations(publication, snapshot.document_kinds, snapshot.documents)
    work = [*for_hosts, *documents, *snapshot.section.parts, *snapshot.signing.buckets]
    if since == sequence:  # hosts have something new to do
        work += order_operations(publication.order, sequence, is_first=snapshot.order is None)
    closing, opening = _closing(publication, snapshot, sequence, since), _opening(publication, snapshot)
    check_data(work)
    check_sizes(closing, acl)
    whole = [*work, *closing]
    if _fits(whole, acl):
        yield whole
        return
    check_sizes(opening, acl)
    yield opening
    for chunk in chunks(work, acl):
        yield [Check(paths.HOSTS, snapshot.hosts.version + 1), *chunk]
    yield _closing(publication, snapshot, sequence, since, opened=True)


def sequences_of(publication: Publication, snapshot: StoredPublication) -> tuple[int, int]:
    """Return the sequence of a publication, and that of the last one that changed something for hosts.

    The sequence is above all earlier ones, also if some of their records were lost. The last publication counts as
    in its state at the time of the decision.
    """
    last = decode_published(snapshot.targets)
    sequence = max(publication.sequence, max(last.sequence, *snapshot.recorded, 0) + 1)
    if publication.repeats and _repeats(publication, snapshot, _operations_for_hosts(publication, snapshot)):
        return sequence, (publication.published or last).effective_since
    return sequence, sequence


def import_transactions(
    change: TreeChange,
    versions: Mapping[str, int],
    nodes: Sequence[Node | None],
    acl: int = 0,
    withholding: Sequence[Operation] = (),
) -> Sequence[Sequence[Operation]]:
    """Return the transactions that change the tree without publishing; one if it fits, none for an empty change.

    ``nodes`` are ``/hosts``, the targets' node and the node of managed names; ``withholding`` writes the services
    that are withheld. The first transaction invalidates
    the targets, which no longer match the tree: agents then read the tree itself. If there are several
    transactions, the first one also sets the mark ``importing`` and lists the new top-level nodes, and the last
    one reverts that. After a crash in between, the next publication removes those nodes.
    """
    work = list(_tree_operations(change, versions))
    if not work:
        return []
    check_data(work)
    hosts, targets, managed = nodes
    first = [*withholding, *([] if targets is None else [_invalidation(targets)])]
    pieces = list(chunks([*first, *work], acl))
    if len(pieces) < 2 or hosts is None:
        return pieces
    cluster = Cluster.from_properties(hosts.properties)
    opened = advance(cluster, ClusterEvent.BEGIN, cluster.importing or BY_HAND)
    # The mark of an interrupted publication stays: only the next publication removes it.
    closed = advance(opened, ClusterEvent.REVERT) if cluster.importing is None else opened
    opening = [setting_cluster(hosts, opened), *first]
    closing = [setting_cluster(hosts, closed, later=1)]
    if managed is not None:
        begun = begun_tops(managed) | made_tops(change)
        data = encode_managed(managed_tops(managed), begun)
        opening.append(Set(paths.MANAGED, data, managed.version))
        closing.append(Set(paths.MANAGED, managed.data, managed.version + 1))
    check_sizes(opening, acl)
    return [
        opening,
        *([Check(paths.HOSTS, hosts.version + 1), *chunk] for chunk in chunks(work, acl)),
        closing,
    ]


def _opening(publication: Publication, snapshot: StoredPublication) -> list[Operation]:
    """Return the operations that mark a large publication as under way and list its new top-level nodes."""
    managed = snapshot.managed
    names = managed_tops(managed) | publication.managed
    begun = begun_tops(managed) | made_tops(publication.change)
    return [
        changing_cluster(snapshot.hosts, ClusterEvent.BEGIN, publication.revision),
        _invalidation(snapshot.targets),
        Set(paths.MANAGED, encode_managed(names, begun), managed.version),
    ]


def _invalidation(targets: Node) -> Operation:
    """Return the operation that removes the targets' version and keeps the record of the last publication."""
    kept = {name: value for name, value in targets.properties.items() if name in _OF_THE_LAST}
    return Set(paths.TARGETS, encode(kept | {"version": None}), targets.version)


def _tree_operations(change: TreeChange, versions: Mapping[str, int]) -> Iterator[Operation]:
    """Yield the operations on the tree: parents are created before children, and deleted after them."""
    for path in sorted(change.create):
        yield Create(path, encode(change.create[path]))
    for path in sorted(change.update):
        yield Set(path, encode(change.update[path]), versions.get(path, ANY_VERSION))
    for path in sorted(change.delete, reverse=True):
        yield Delete(path, versions.get(path, ANY_VERSION))


def _target_operations(publication: Publication, snapshot: StoredPublication) -> Iterator[Operation]:
    touched = publication.targets.keys() if publication.touched is None else publication.touched
    wanted = encode_targets(publication.targets, touched, snapshot.encoded)
    for path, data in sorted(wanted.items()):
        node = snapshot.compiled.get(path)
        if node is None:
            yield Create(path, data)
        elif node.data != data:
            yield Set(path, data, node.version)
    for path in sorted(snapshot.compiled.keys() - wanted.keys()):
        yield Delete(path, snapshot.compiled[path].version)


def _operations_for_hosts(publication: Publication, snapshot: StoredPublication) -> list[Operation]:
    return [
        *_tree_operations(publication.change, publication.versions),
        *_target_operations(publication, snapshot),
        *(Create(f"{paths.ROLE_LOCKS}/{role}") for role in sorted(publication.roles - snapshot.role_locks)),
    ]


def _repeats(publication: Publication, snapshot: StoredPublication, for_hosts: Iterable[Operation]) -> bool:
    """Whether a publication has nothing new for hosts; an order that was lost is written again for them."""
    is_whole = publication.repeats and not snapshot.lacks_order
    return is_whole and all(_is_same_work(operation, snapshot) for operation in for_hosts)


def _is_same_work(operation: Operation, snapshot: StoredPublication) -> bool:
    """Whether an operation writes a target without anything new to do: signed publications add digests."""
    node = snapshot.compiled.get(operation.path)
    return isinstance(operation, Set) and node is not None and is_same_work(node.data, operation.data)


def _closing(
    publication: Publication, snapshot: StoredPublication, sequence: int, since: int, *, opened: bool = False
) -> list[Operation]:
    """Return the operations that set the version of the targets and of the cluster, and end stops and holds.

    ``opened``: the transaction of ``_opening`` was committed before. The operations fail if a stop was recorded
    after the snapshot was read.
    """
    exact = {} if publication.exact is None else {"exact": publication.exact}
    managed = encode_managed(publication.managed, publication.leftovers)
    strategy = publication.strategy
    by = {} if strategy is None else {"strategy": strategy.name}
    revision = publication.revision
    kept = {"sequence": sequence, "since": since}
    had_intents = decode_published(snapshot.targets).intents is not None
    intents: dict[str, Value] = {}
    if publication.intents or had_intents:
        intents = {"intents": publication.intents, "left": left_digest(publication.left)}
    properties = {"version": revision, **kept, **exact, **by, "ordered": revision, **intents}
    return [
        *_recording(publication, snapshot, sequence, since),
        *(
            [Set(paths.MANAGED, managed, snapshot.managed.version + opened)]
            if opened or managed != snapshot.managed.data
            else []
        ),
        *_strategy_operations(publication, snapshot),
        *snapshot.section.closing,
        *snapshot.signing.statement,
        Set(paths.TARGETS, encode(properties), snapshot.targets.version + opened),
        changing_cluster(snapshot.hosts, ClusterEvent.COMPLETE, publication.revision, later=int(opened)),
        *forgetting_stops(snapshot.stops),
        *([] if snapshot.request is None else [snapshot.request]),
    ]


def _strategy_operations(publication: Publication, snapshot: StoredPublication) -> Iterator[Operation]:
    """Yield the operation that replaces the published strategy, if it changes."""
    data = encode_strategy(publication.strategy)
    if snapshot.strategy is None:
        if data:
            yield Create(paths.STRATEGY, data)
    elif snapshot.strategy.data != data:
        yield Set(paths.STRATEGY, data, snapshot.strategy.version)


def _recording(
    publication: Publication, snapshot: StoredPublication, sequence: int, since: int
) -> Iterator[Operation]:
    """Yield the operation that creates the publication's record, below which hosts record their results."""
    if publication.record is not None:
        record = replace(publication.record, sequence=sequence, since=since, hosts=snapshot.hosts.children)
        yield Create(paths.history_path(sequence), encode(record.to_json()))


def _fits(operations: Sequence[Operation], acl: int) -> bool:
    return (
        len(operations) <= OPERATIONS_LIMIT
        and sum(size(operation, acl) for operation in operations) <= TRANSACTION_LIMIT
    )


def chunks(operations: Sequence[Operation], acl: int) -> Iterator[list[Operation]]:
    """Yield operations in lists that fit into one transaction each."""
    chunk: list[Operation] = []
    taken = 0
    for operation in operations:
        more = size(operation, acl)
        if chunk and (taken + more > TRANSACTION_LIMIT - _RESERVE or len(chunk) >= OPERATIONS_LIMIT):
            yield chunk
            chunk, taken = [], 0
        chunk.append(operation)
        taken += more
    if chunk:
        yield chunk

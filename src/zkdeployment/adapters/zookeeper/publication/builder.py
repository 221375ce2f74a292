"""From a publication to the transactions that write it, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.bootstrap import make_skeleton
from zkdeployment.adapters.zookeeper.client.nodes import Node, encode
from zkdeployment.adapters.zookeeper.client.transactions import (
    ANY_VERSION,
    TRANSACTION_LIMIT,
    Check,
    Create,
    Delete,
    Operation,
    Set,
    check_data,
    check_sizes,
    size,
)
from zkdeployment.adapters.zookeeper.operator.stops import RecordedStops, few_stops, forgetting_stops
from zkdeployment.adapters.zookeeper.publication.compiled import encode_targets, node_paths
from zkdeployment.adapters.zookeeper.publication.last_publication import decode_published
from zkdeployment.adapters.zookeeper.publication.managed import begun_tops, encode_managed, made_tops, managed_tops
from zkdeployment.adapters.zookeeper.publication.strategies import encode_strategy
from zkdeployment.errors import ConflictError
from zkdeployment.model.cluster import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.publication import Publication, TreeChange

#: A transaction stops the whole ensemble for its time; this many small operations take it some 20 ms.
OPERATIONS_LIMIT = 2000

#: What the targets' node says of the last publication also after somebody imported by hand.
_OF_THE_LAST = ("sequence", "strategy", "ordered")

#: Room for what every transaction of a large publication has beside its share.
_RESERVE = 4096


@dataclass(frozen=True, slots=True)
class StoredPublication:
    """What stands in ZooKeeper beside the tree: ``/hosts``, the targets (by path), role locks, stops, history.

    ``recorded`` are the sequences of the publications in the history, sorted. ``strategy`` is ``None`` where no
    strategy was ever published. ``request`` removes the request that is carried out.
    """

    hosts: Node
    targets: Node
    managed: Node
    compiled: Mapping[str, Node]
    role_locks: frozenset[str]
    stops: RecordedStops
    recorded: tuple[int, ...]
    strategy: Node | None = None
    request: Operation | None = None


def read_stored(session: Session, touched: Collection[str] | None) -> StoredPublication:
    """Read it, with these targets (``None``: all); makes what is missing of the skeleton first."""
    known = [] if touched is None else node_paths(touched)
    wanted, listed = [*paths.SKELETON, paths.STRATEGY, *known], [paths.ROLE_LOCKS, paths.HISTORY]
    nodes, (role_locks, history) = session.look(wanted, listed)
    if None in nodes[: len(paths.SKELETON)]:
        make_skeleton(session)
        nodes, (role_locks, history) = session.look(wanted, listed)
    found = dict(zip(wanted, nodes, strict=True))
    if touched is None:
        known = [f"{paths.TARGETS}/{name}" for name in session.children(paths.TARGETS) or ()]
        found |= dict(zip(known, session.get_many(known), strict=True))
    hosts, targets, managed = found[paths.HOSTS], found[paths.TARGETS], found[paths.MANAGED]
    if hosts is None or targets is None or managed is None:
        raise ConflictError("somebody deletes the nodes that zkdeployment needs")
    return StoredPublication(
        hosts=hosts,
        targets=targets,
        managed=managed,
        compiled={path: node for path in known if (node := found[path]) is not None},
        role_locks=frozenset(role_locks or ()),
        stops=few_stops(session, hosts.version),
        recorded=tuple(paths.sequences(history or ())),
        strategy=found[paths.STRATEGY],
    )


def transactions_for(
    publication: Publication, snapshot: StoredPublication, acl: int = 0
) -> Iterator[Sequence[Operation]]:
    """Return the transactions that publish it, in order; the first and the last are to be committed alone.

    One if it fits. Otherwise the first takes the targets' version away, lists the coming top-level nodes, and sets
    the mark ``importing``, which only the last removes, with the new version: what a crash leaves between them
    deploys nowhere, and the next publication removes it. Each depends on ``/hosts`` being as the one before left
    it. ``acl`` is how many bytes the access list of a node takes. Raises ``TreeError`` if a node is too large,
    before anything is written.
    """
    work = [
        *_tree_operations(publication.change, publication.versions),
        *_target_operations(publication, snapshot),
        *(Create(f"{paths.ROLE_LOCKS}/{role}") for role in sorted(publication.roles - snapshot.role_locks)),
    ]
    closing, opening = _closing(publication, snapshot), _opening(publication, snapshot)
    check_data(work)
    check_sizes(closing, acl)
    whole = [*work, *closing]
    if _fits(whole, acl):
        yield whole
        return
    check_sizes(opening, acl)
    yield opening
    for chunk in _chunks(work, acl):
        yield [Check(paths.HOSTS, snapshot.hosts.version + 1), *chunk]
    yield _closing(publication, snapshot, opened=True)


def sequence_of(publication: Publication, snapshot: StoredPublication) -> int:
    """Return the sequence that a publication gets, above all that there were, whatever was lost of them."""
    last = max(decode_published(snapshot.targets).sequence, *snapshot.recorded, 0)
    return max(publication.sequence, last + 1)


def import_transactions(
    change: TreeChange, versions: Mapping[str, int], published_state: Sequence[Node | None], acl: int = 0
) -> Sequence[Sequence[Operation]]:
    """Return the transactions that change the tree without publishing it; one if it fits, none for no change.

    ``standing`` are ``/hosts``, the targets and the managed names. The targets lose their version with the first
    transaction: they are not those of this tree any more, so agents that are sent to a version read the tree
    itself. Of several transactions the first sets the mark ``importing`` and lists the coming top-level nodes, and
    the last takes that back. A publication ends what a crash leaves between them, and removes those nodes.
    """
    work = list(_tree_operations(change, versions))
    if not work:
        return []
    check_data(work)
    hosts, targets, managed = published_state
    first = [] if targets is None else [_invalidation(targets)]
    chunks = list(_chunks([*first, *work], acl))
    if len(chunks) < 2 or hosts is None:
        return chunks
    marked = {"importing": BY_HAND, **hosts.properties}
    opening = [Set(paths.HOSTS, encode(marked), hosts.version), *first]
    closing = [Set(paths.HOSTS, encode(hosts.properties), hosts.version + 1)]
    if managed is not None:
        begun = begun_tops(managed) | made_tops(change)
        data = encode_managed(managed_tops(managed), begun)
        opening.append(Set(paths.MANAGED, data, managed.version))
        closing.append(Set(paths.MANAGED, managed.data, managed.version + 1))
    check_sizes(opening, acl)
    return [
        opening,
        *([Check(paths.HOSTS, hosts.version + 1), *chunk] for chunk in _chunks(work, acl)),
        closing,
    ]


def _opening(publication: Publication, snapshot: StoredPublication) -> list[Operation]:
    """Mark that a large publication is under way, and note which top-level nodes it makes."""
    hosts, managed = snapshot.hosts, snapshot.managed
    marked = hosts.properties | {"importing": publication.revision}
    names = managed_tops(managed) | publication.managed
    begun = begun_tops(managed) | made_tops(publication.change)
    return [
        Set(paths.HOSTS, encode(marked), hosts.version),
        _invalidation(snapshot.targets),
        Set(paths.MANAGED, encode_managed(names, begun), managed.version),
    ]


def _invalidation(targets: Node) -> Operation:
    """Take the targets' version away; which publication was the last, and how hosts take that up, stays."""
    kept = {name: value for name, value in targets.properties.items() if name in _OF_THE_LAST}
    return Set(paths.TARGETS, encode(kept | {"version": None}), targets.version)


def _tree_operations(change: TreeChange, versions: Mapping[str, int]) -> Iterator[Operation]:
    """Parents are made before children, children deleted before parents."""
    for path in sorted(change.create):
        yield Create(path, encode(change.create[path]))
    for path in sorted(change.update):
        yield Set(path, encode(change.update[path]), versions.get(path, ANY_VERSION))
    for path in sorted(change.delete, reverse=True):
        yield Delete(path, versions.get(path, ANY_VERSION))


def _target_operations(publication: Publication, snapshot: StoredPublication) -> Iterator[Operation]:
    touched = publication.targets.keys() if publication.touched is None else publication.touched
    wanted = encode_targets(publication.targets, touched)
    for path, data in sorted(wanted.items()):
        node = snapshot.compiled.get(path)
        if node is None:
            yield Create(path, data)
        elif node.data != data:
            yield Set(path, data, node.version)
    for path in sorted(snapshot.compiled.keys() - wanted.keys()):
        yield Delete(path, snapshot.compiled[path].version)


def _closing(publication: Publication, snapshot: StoredPublication, *, opened: bool = False) -> list[Operation]:
    """Make it valid: the version of the targets and of the cluster; whatever was stopped goes on.

    ``opened``: the transaction of ``_opening`` was done before. A stop that was recorded since the ``situation``
    was read is in the way.
    """
    kept = {name: value for name, value in snapshot.hosts.properties.items() if name != "importing"}
    exact = {} if publication.exact is None else {"exact": publication.exact}
    sequence = sequence_of(publication, snapshot)
    managed = encode_managed(publication.managed, publication.leftovers)
    strategy = publication.strategy
    by = {} if strategy is None else {"strategy": strategy.name}
    revision = publication.revision
    said = {"version": revision, "sequence": sequence, **exact, **by, "ordered": revision}
    return [
        *_recording(publication, snapshot, sequence),
        *(
            [Set(paths.MANAGED, managed, snapshot.managed.version + opened)]
            if opened or managed != snapshot.managed.data
            else []
        ),
        *_strategy_operations(publication, snapshot),
        Set(paths.TARGETS, encode(said), snapshot.targets.version + opened),
        Set(paths.HOSTS, encode(kept | {"version": publication.revision}), snapshot.hosts.version + opened),
        *forgetting_stops(snapshot.stops),
        *([] if snapshot.request is None else [snapshot.request]),
    ]


def _strategy_operations(publication: Publication, snapshot: StoredPublication) -> Iterator[Operation]:
    """Replace the published strategy by this publication's, or by nothing."""
    data = encode_strategy(publication.strategy)
    if snapshot.strategy is None:
        if data:
            yield Create(paths.STRATEGY, data)
    elif snapshot.strategy.data != data:
        yield Set(paths.STRATEGY, data, snapshot.strategy.version)


def _recording(publication: Publication, snapshot: StoredPublication, sequence: int) -> Iterator[Operation]:
    """Record the publication in the history; hosts tell below that how it went."""
    if publication.record is not None:
        record = replace(publication.record, sequence=sequence, hosts=snapshot.hosts.children)
        yield Create(paths.history_path(sequence), encode(record.to_json()))


def _fits(operations: Sequence[Operation], acl: int) -> bool:
    return len(operations) <= OPERATIONS_LIMIT and sum(size(one, acl) for one in operations) <= TRANSACTION_LIMIT


def _chunks(operations: Sequence[Operation], acl: int) -> Iterator[list[Operation]]:
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

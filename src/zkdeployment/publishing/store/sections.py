"""The sections of every publication: the tree, targets, documents, the order, the last publication and its record.

Signatures are in ``signing``. A feature may bring a further section.
"""

# ruff: noqa: ARG002  most sections need only some of the arguments

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterEvent
from zkdeployment.base.errors import ConflictError
from zkdeployment.publishing.signing.statement import left_digest
from zkdeployment.publishing.store.assignments import encode_targets, is_same_work, node_paths, walk, writing
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
)
from zkdeployment.publishing.store.documents import (
    After,
    Before,
    SectionOperations,
    SectionReads,
    SectionWriter,
    document_path,
    encode_strategy,
)
from zkdeployment.publishing.store.requests import request_of
from zkdeployment.publishing.store.service_order import encode_entry
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode, encode_content
from zkdeployment.zookeeper.transactions import ANY_VERSION, Create, Delete, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.base.json_values import Value
    from zkdeployment.publishing.records import Publication
    from zkdeployment.publishing.store.signing import SignatureWriter
    from zkdeployment.tree.values import TreeChange


def existing(before: Before, path: str) -> Node:
    """Return a node on which every client relies."""
    node = before.nodes[path]
    if node is None:
        raise ConflictError(f"{path} was removed right after it was created; check what removes it")
    return node


def tree_operations(change: TreeChange, versions: Mapping[str, int]) -> Iterator[Operation]:
    """Yield the operations on the tree: parents are created before children, and deleted after them."""
    create = change.create
    for path in sorted(create):  # most of many nodes have no properties
        yield Create(path, encode(properties) if (properties := create[path]) else b"")
    for path in sorted(change.update):
        yield Set(path, encode(change.update[path]), versions.get(path, ANY_VERSION))
    for path in sorted(change.delete, reverse=True):
        yield Delete(path, versions.get(path, ANY_VERSION))


def _replacing(wanted: Mapping[str, bytes], present: Mapping[str, Node]) -> Iterator[Operation]:
    """Yield the operations that give nodes the wanted data, and delete the other present ones, children first."""
    for path, data in sorted(wanted.items()):
        node = present.get(path)
        if node is None:
            yield Create(path, data)
        elif node.data != data:
            yield Set(path, data, node.version)
    for path in sorted(present.keys() - wanted.keys(), reverse=True):
        yield Delete(path, present[path].version)


class TreeWriter(SectionWriter):
    """The nodes of the tree."""

    def concerns_hosts(self, before: Before, publication: Publication) -> bool:
        """Whether the tree changes."""
        return bool(publication.change)

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations on nodes of the tree; they fail if a node changed since it was read."""
        publication = after.publication
        return SectionOperations([*tree_operations(publication.change, publication.versions)])


class TargetWriter(SectionWriter):
    """The nodes of the targets; targets that the ``signature`` has encoded are not encoded again."""

    def __init__(self, signature: SignatureWriter) -> None:
        self._signature = signature

    def reads(self, publication: Publication) -> SectionReads:
        """Return the targets that may change."""
        if publication.touched is None:
            return SectionReads(below=[paths.TARGETS])
        return SectionReads(node_paths(publication.touched))

    def concerns_hosts(self, before: Before, publication: Publication) -> bool:
        """Whether some target gets new work; signed publications also add digests."""
        present = before.under(paths.TARGETS)
        return not all(
            isinstance(operation, Set) and is_same_work(present[operation.path].data, operation.data)
            for operation in self._changes(before, publication)
        )

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that write the targets that change."""
        return SectionOperations([*self._changes(before, after.publication)])

    def _changes(self, before: Before, publication: Publication) -> Iterator[Operation]:
        touched = publication.targets.keys() if publication.touched is None else publication.touched
        wanted = encode_targets(publication.targets, touched, self._signature.encoded)
        return _replacing(wanted, before.under(paths.TARGETS))


class RoleLockWriter(SectionWriter):
    """The nodes above the locks of roles."""

    needs = SectionReads(lists=[paths.ROLE_LOCKS])

    def concerns_hosts(self, before: Before, publication: Publication) -> bool:
        """Whether a role is new."""
        return not publication.roles <= {*before.children[paths.ROLE_LOCKS]}

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that create the locks of new roles."""
        new = after.publication.roles.difference(before.children[paths.ROLE_LOCKS])
        return SectionOperations([Create(f"{paths.ROLE_LOCKS}/{role}") for role in sorted(new)])


class DocumentWriter(SectionWriter):
    """The nodes of the documents."""

    def reads(self, publication: Publication) -> SectionReads:
        """Return the documents that may change."""
        if publication.touched_documents is None:
            return SectionReads(lists=[paths.DOCUMENTS], below=[paths.DOCUMENTS])
        return SectionReads([*map(document_path, publication.touched_documents)], [paths.DOCUMENTS])

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that write the documents that change, and the nodes of their kinds."""
        documents, touched = after.publication.documents, after.publication.touched_documents
        keys = documents.keys() if touched is None else touched
        new_kinds = {kind for kind, _ in keys}.difference(before.children[paths.DOCUMENTS])
        wanted = {document_path(key): encode_content(documents[key]) for key in keys if key in documents}
        kinds = {f"{paths.DOCUMENTS}/{kind}" for kind in before.children[paths.DOCUMENTS]}
        present = {path: node for path, node in before.under(paths.DOCUMENTS).items() if path not in kinds}
        created = (Create(f"{paths.DOCUMENTS}/{kind}") for kind in sorted(new_kinds))
        return SectionOperations([*created, *_replacing(wanted, present)])


class RecordWriter(SectionWriter):
    """The publication's record in the history, below which hosts record their results."""

    needs = SectionReads(lists=[paths.HISTORY])

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operation that creates the record."""
        record, hosts = after.publication.record, existing(before, paths.HOSTS).children
        if record is None:
            return SectionOperations()
        record = replace(record, sequence=after.sequence, since=after.since, hosts=hosts)
        return SectionOperations(closing=[Create(paths.history_path(after.sequence), encode(record.to_json()))])


def opened_managed(managed: Node, change: TreeChange, more: frozenset[str] = frozenset()) -> Operation:
    """Return the operation that lists the top-level nodes that an unfinished publication or import creates.

    ``more`` are managed names that its files contain.
    """
    begun = begun_tops(managed) | made_tops(change)
    return Set(paths.MANAGED, encode_managed(managed_tops(managed) | more, begun), managed.version)


class ManagedWriter(SectionWriter):
    """The names of the top-level nodes that publications manage."""

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that write the names, and first those of nodes that the publication creates."""
        publication, node = after.publication, existing(before, paths.MANAGED)
        data = encode_managed(publication.managed, publication.leftovers)
        opening = opened_managed(node, publication.change, publication.managed)
        return SectionOperations((), [*writing(paths.MANAGED, data, node)], [opening])


class StrategyWriter(SectionWriter):
    """The strategy that governs rollouts."""

    needs = SectionReads([paths.STRATEGY])

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operation that replaces the strategy, if it changes."""
        data = encode_strategy(after.publication.strategy)
        return SectionOperations(closing=[*writing(paths.STRATEGY, data, before.nodes[paths.STRATEGY])])


class OrderWriter(SectionWriter):
    """The order between services: a node for each service that other deployments wait for."""

    def reads(self, publication: Publication) -> SectionReads:
        """Return the node above all orders, and the orders of the last and of this publication."""
        coming = paths.order_path(publication.sequence)
        return SectionReads([paths.ORDER, _standing_order(publication), coming])

    def concerns_hosts(self, before: Before, publication: Publication) -> bool:
        """Whether the order was lost, and has to be written again."""
        return bool(publication.order) and before.nodes[_standing_order(publication)] is None

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that write the nodes, if hosts have something new to do.

        An unfinished publication may have left nodes: while the last sequence is ahead of the clock, the next
        publication has the same sequence.
        """
        order, sequence = after.publication.order, after.sequence
        if after.since != sequence:
            return SectionOperations()
        directory = paths.order_path(sequence)
        left = {} if before.nodes.get(directory) is None else walk(before.session, [directory])
        wanted = {paths.awaited_path(sequence, service): encode_entry(entry) for service, entry in order.items()}
        if order:
            wanted[directory] = b""
        above = [Create(paths.ORDER)] if order and before.nodes[paths.ORDER] is None else []
        return SectionOperations([*above, *_replacing(wanted, left)])


def _standing_order(publication: Publication) -> str:
    return paths.order_path(0 if publication.published is None else publication.published.effective_since)


#: The properties of the targets' node that describe the last publication and stay valid after an import by hand.
_OF_THE_LAST = ("sequence", "since", "strategy", "ordered", "intents", "left")


def invalidation(targets: Node) -> Operation:
    """Return the operation that removes the targets' version and keeps the record of the last publication."""
    kept = {name: value for name, value in targets.properties.items() if name in _OF_THE_LAST}
    return Set(paths.TARGETS, encode(kept | {"version": None}), targets.version)


class LastPublicationWriter(SectionWriter):
    """The node above the targets, which describes the last publication."""

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that describe the publication, and first invalidate the targets."""
        publication, targets = after.publication, existing(before, paths.TARGETS)
        properties: dict[str, Value] = {
            "version": publication.revision,
            "sequence": after.sequence,
            "since": after.since,
            "ordered": publication.revision,
        }
        if publication.exact is not None:
            properties["exact"] = publication.exact
        if publication.strategy is not None:
            properties["strategy"] = publication.strategy.name
        if publication.intents or decode_published(targets).intents is not None:
            properties |= {"intents": publication.intents, "left": left_digest(publication.left)}
        described = Set(paths.TARGETS, encode(properties), targets.version)
        return SectionOperations((), [described], [invalidation(targets)])


class ClusterWriter(SectionWriter):
    """The cluster version, and the end of stops and holds."""

    needs = SectionReads(lists=[paths.STOPS])

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that set the version, or the mark ``importing``; a later stop makes them fail."""
        hosts, revision = existing(before, paths.HOSTS), after.publication.revision
        recorded = RecordedStops((*before.children[paths.STOPS],), existing(before, paths.STOPS).version)
        stops = forgetting_stops(few_stops(before.session, hosts.version, recorded))
        return SectionOperations(
            (),
            [changing_cluster(hosts, ClusterEvent.COMPLETE, revision), *stops],
            [changing_cluster(hosts, ClusterEvent.BEGIN, revision)],
        )


class RequestWriter(SectionWriter):
    """The operator's request that the publication carries out."""

    needs = SectionReads([paths.REQUEST])

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operation that removes the request, or a refused one that is too old to be served.

        Raises ``ConflictError`` if another request than that of the publication stands.
        """
        node, request, record = before.nodes[paths.REQUEST], after.publication.request, after.publication.record
        if request is None:
            found = None if node is None else request_of(node)
            if node is None or found is None or found.error is None or record is None:
                return SectionOperations()
            is_abandoned = found.is_expired(record.time)  # its answer was not read
            return SectionOperations(closing=[Delete(paths.REQUEST, node.version)] if is_abandoned else ())
        if node is None or request_of(node).id != request:
            raise ConflictError("the request for a publication was withdrawn or replaced")
        return SectionOperations(closing=[Delete(paths.REQUEST, node.version)])

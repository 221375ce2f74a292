"""The guards of publications: read the facts for each guard and raise its refusal. ``planning.guards`` decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.planning.guards import (
    date_refusal,
    predecessor,
    removal_refusal,
    request_refusal,
    rewind_refusal,
)

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.publishing.request import PublicationRequest
    from zkdeployment.planning.published_state import PublicationSnapshot, PublishedState
    from zkdeployment.planning.publishing import Draft
    from zkdeployment.ports.publication import TreeSource


class PublicationGuards:
    """Checks publications of ``source`` to ``store``. Each check raises ``RefusedError``."""

    def __init__(self, source: TreeSource, store: ZooKeeperPublications) -> None:
        self._source = source
        self._store = store

    def check_request(self, request: PublicationRequest, published_state: PublishedState) -> None:
        """Refuse a request that was withdrawn, has expired or refers to another state of the fleet."""
        current = self._store.request()
        if current is None or current.id != request.id:
            raise RefusedError(f"the request of {request.by} was taken back")
        _refuse(request_refusal(current, published_state, self._store.server_time()))

    def check_history(self, published_state: PublishedState, tip: Revision, origin: Origin) -> None:
        """Refuse a tip that does not descend from the published revision, or is signed with an earlier date."""
        before = predecessor(published_state)
        if before is None or before == tip:
            return
        _refuse(rewind_refusal(tip, before, descends=self._source.descends(tip, before)))
        if origin.signer is not None:
            _refuse(date_refusal(tip, origin, self._source.origin(before)))

    def check_removals(self, snapshot: PublicationSnapshot, tip: Revision, draft: Draft) -> None:
        """Refuse a publication that ends too many deployments, unless it was checked before its interruption.

        Deployments that end because of the state of their intents do not count.
        """
        if snapshot.cluster is None or snapshot.cluster.importing != tip:
            before, compilation = draft.baseline.targets, draft.compilation
            changed = compilation.changed_since(before, whole=True)
            pruned = draft.change.delete
            _refuse(removal_refusal(tip, before, compilation.whole, snapshot.known, pruned, changed=changed))


def _refuse(reason: str | None) -> None:
    if reason is not None:
        raise RefusedError(reason)

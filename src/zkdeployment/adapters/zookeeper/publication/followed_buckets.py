"""The buckets of the signed publication as a syncer follows them: it reads only the changed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.reads import Read
from zkdeployment.adapters.zookeeper.feed.followed_nodes import FollowedNodes
from zkdeployment.signing.digests import digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session


class FollowedBuckets:
    """The buckets through one session; watches report which of them have to be read again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = FollowedNodes(session, lambda: None)
        self._compared: Mapping[str, str] = {}
        self._equal = False

    def have(self, digests: Mapping[str, str]) -> bool:
        """Return whether the buckets with these names have these digests; raises ``UnreachableError``.

        The buckets are at least as new as the last read of this session.
        """
        self._session.settle_watches()
        wanted = {name: Read(paths.bucket_path(name)) for name in digests}
        changed = self._nodes.refresh(wanted.values)
        if changed or digests != self._compared:
            self._equal = all(self._has(read, digests[name]) for name, read in wanted.items())
            self._compared = digests
        return self._equal

    def _has(self, read: Read, digest: str) -> bool:
        node = self._nodes.node(read.path)
        return node is not None and digest_of(node.data) == digest

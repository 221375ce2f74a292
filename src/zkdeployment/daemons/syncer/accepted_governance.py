"""The syncer's own record of what it accepted, and what governs before the next publication.

The list of left services in ZooKeeper counts only if nothing better is known: an emptied list would have services
deployed without an approval, and an invented one would have services undeployed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, UntrustedError
from zkdeployment.intents.acceptance import (
    AcceptanceRecord,
    StandingGovernance,
    recorded_governance,
    standing_list,
)
from zkdeployment.log import get_logger
from zkdeployment.signing.statement import NOTHING_LEFT, left_digest

if TYPE_CHECKING:
    from zkdeployment.adapters.host_files.accepted_file import AcceptedFile
    from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
    from zkdeployment.intents.acceptance import Acceptance
    from zkdeployment.model.publication import Published
    from zkdeployment.signing.sequences import SigningRecord


class AcceptedGovernance:
    """Keeps the record in ``memory``; without ``memory``, only as long as this object lives."""

    def __init__(self, store: ZooKeeperPublications, memory: AcceptedFile | None = None) -> None:
        self._store = store
        self._memory = memory
        self._record: AcceptanceRecord | None = None

    def last(self, published: Published) -> Acceptance | None:
        """Return what this syncer accepted with the last publication; ``None`` before the first one."""
        if self._record is None and self._memory is not None:
            self._record = self._memory.read_accepted()
        return None if self._record is None else self._record.settled(published)

    def standing(self, published: Published, signed: SigningRecord | None) -> StandingGovernance:
        """Return what governs until the next publication; ``signed`` as in ``recorded_governance``.

        Raises ``UntrustedError`` if ZooKeeper does not hold the list of left services of the last publication, and
        this syncer does not have it either. Raises ``TreeError`` if that list cannot be read.
        """
        recorded = recorded_governance(self.last(published), published, signed)
        if recorded is not None:
            return recorded
        revision, digest = standing_list(published, signed)
        if digest == NOTHING_LEFT or (digest is None and published.intents is None):
            return StandingGovernance(revision)
        left = self._store.left()
        if left_digest(left) != digest:
            raise UntrustedError(
                "ZooKeeper does not hold the list of the services that left their intents: expected the list of"
                f" the publication of {revision} ({_shown(digest)}), found another one in /zkdeployment/left;"
                " restore these nodes from a backup, or copy .MIRROR.accepted from the machine of the syncer that"
                " published this revision"
            )
        return StandingGovernance(revision, left)

    def accept(self, coming: Acceptance, published: Published) -> None:
        """Record durably what the ``coming`` publication is about to accept; raises ``HostFilesError``.

        ``published`` is the publication that stands. Call ``settle`` when the coming one was written.
        """
        self._write(AcceptanceRecord(self.last(published), coming))

    def settle(self) -> None:
        """Record that the publication of the last ``accept`` was written.

        If this record is lost, the next run asks ZooKeeper.
        """
        if self._record is None or self._record.coming is None:
            return
        try:
            self._write(AcceptanceRecord(self._record.coming))
        except HostFilesError as error:
            get_logger().warning("acceptance-not-recorded", reason=str(error))

    def _write(self, record: AcceptanceRecord) -> None:
        if self._memory is not None:
            self._memory.write_accepted(record)
        self._record = record


def _shown(digest: str | None) -> str:
    return "unknown, because /zkdeployment/targets lacks 'left'" if digest is None else f"sha256:{digest[:12]}…"

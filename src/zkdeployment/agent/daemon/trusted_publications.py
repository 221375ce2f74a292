"""Reads publications for an agent with publishers: only signed ones that are not older than the last one.

An agent without publishers trusts ZooKeeper and does not use this module.
"""

from __future__ import annotations

import contextlib
from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import INITIAL, Revision
from zkdeployment.base.errors import ConflictError, StalePublicationError, UntrustedError
from zkdeployment.base.publication import Published
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.signing.snapshot import SignedSnapshot, check_properties, check_snapshot
from zkdeployment.publishing.signing.statement import Statement
from zkdeployment.publishing.targets.compiler import wanted_for
from zkdeployment.publishing.targets.services import decode_target
from zkdeployment.publishing.watermark import Watermark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.agent.files.verified_properties import VerifiedPropertiesFiles
    from zkdeployment.base.deployment import Assignment, DesiredState
    from zkdeployment.base.host import Identity
    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.machine.files import JsonFile
    from zkdeployment.publishing.ports import PublisherKeys
    from zkdeployment.publishing.store.signed import ZooKeeperSignedPublications

_UNSIGNED = (
    "the publication is not signed: expected a signature, because this host has publishers in its configuration,"
    " found none; set publish-key in [sync] for every syncer, and publish again"
)


@dataclass(frozen=True, slots=True)
class TrustedTargets:
    """A host's wanted deployments in a signed publication, with the properties of its services by path."""

    published: Published
    wanted: DesiredState
    properties: Mapping[str, Properties] = field(default_factory=dict)


class TrustedPublications:
    """Reads and verifies publications for one host; ``memory`` keeps the last one that was verified.

    ``minimum`` is the sequence of the oldest acceptable publication, also for a host that has not verified any.
    ``files`` store the verified properties of services. The methods raise ``UntrustedError`` if no publisher
    signed the content of ZooKeeper, ``ConflictError`` if a publication interfered (then call again), and
    ``HostFilesError`` if the keys cannot be read.
    """

    def __init__(
        self,
        publications: ZooKeeperSignedPublications,
        keys: PublisherKeys,
        memory: JsonFile[Published],
        files: VerifiedPropertiesFiles,
        *,
        minimum: int = 0,
    ) -> None:
        self._publications = publications
        self._keys = keys
        self._watermark = Watermark(memory, minimum)
        self._files = files

    def published(self, identity: Identity, revision: Revision) -> Published:
        """Return the publication of ``revision``, the cluster version that was read before."""
        return self._verified(identity, revision)[1]

    def remember(self, published: Published) -> None:
        """Remember a verified publication before the host acts on it; raises ``HostFilesError``.

        From then on, also after a crash, every older publication is refused.
        """
        self._watermark.remember(published)

    def targets(self, identity: Identity, revision: Revision) -> TrustedTargets:
        """Return the host's targets at ``revision``; raises ``TreeError`` for contradictions.

        The revision may have been published again since the call of ``published``: ``remember`` this publication,
        too.
        """
        snapshot, published = self._verified(identity, revision)
        if snapshot.signed is None:
            raise UntrustedError(_UNSIGNED)
        targets = {
            key: assignments
            for name, data in snapshot.targets.items()
            if data is not None
            for key, assignments in decode_target(name, data).items()
        }
        wanted = wanted_for(identity, targets)
        assignments = _all_assignments(wanted)
        with _advising():
            properties = self._publications.properties({wanted.path for wanted in assignments}, snapshot)
            check_properties(assignments, properties)
        return TrustedTargets(published, wanted, properties)

    def write_properties(self, targets: TrustedTargets) -> None:
        """Write the properties of the services that the host should run; raises ``HostFilesError``.

        Scripts read these files. After a crash in between, each file belongs to the former or to the new verified
        publication.
        """
        self._files.replace(targets.properties)

    def properties_file(self, path: str) -> str:
        """Return the file with the verified properties of a service for its scripts."""
        return self._files.file(path)

    def _verified(self, identity: Identity, revision: Revision) -> tuple[SignedSnapshot, Published]:
        with _advising():
            snapshot = self._publications.snapshot(identity)
        mandate = None if snapshot.cluster is None else snapshot.cluster.mandate(identity.id)
        if mandate is None or mandate.revision != revision:
            raise ConflictError(f"the cluster version changed while the publication was read: expected {revision}")
        if snapshot.signed is None:
            return snapshot, self._unsigned(revision)
        with _advising():
            self._keys.verify(snapshot.signed)
            statement = Statement.from_text(snapshot.signed.text)
        published = Published(
            revision=statement.revision,
            sequence=statement.sequence,
            since=statement.since,
            strategy=None if snapshot.strategy is None else snapshot.strategy.name,
            ordered=statement.revision,
        )
        try:
            self._watermark.check(published)
        except StalePublicationError as error:
            raise UntrustedError(str(error)) from error
        with _advising():
            check_snapshot(snapshot, statement, revision)
        return snapshot, published

    def _unsigned(self, revision: Revision) -> Published:
        """Return the empty publication of a new fleet; raises ``UntrustedError`` after the first publication."""
        if revision == INITIAL and not self._watermark.sequence:
            return Published()
        raise UntrustedError(_UNSIGNED)


@contextlib.contextmanager
def _advising() -> Iterator[None]:
    """Add advice to the reason why the host does not trust ZooKeeper."""
    try:
        yield
    except UntrustedError as error:
        raise UntrustedError(
            f"{error}; find out who changed ZooKeeper, then publish again with 'zkdeployment resume --latest' or"
            " 'zkdeployment sync --force'"
        ) from error


def _all_assignments(wanted: DesiredState) -> tuple[Assignment, ...]:
    return wanted.assignments if wanted.controller is None else (*wanted.assignments, wanted.controller)

"""Builds what verifies signed publications on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.host_files.published_file import PublishedFile
from zkdeployment.adapters.host_files.verified_lease_file import VerifiedLeaseFile
from zkdeployment.adapters.host_files.verified_properties import VerifiedPropertiesFiles
from zkdeployment.adapters.publisher_keys import PublisherKeysFile
from zkdeployment.adapters.zookeeper.pools.leases import ZooKeeperSignedLeases
from zkdeployment.adapters.zookeeper.publication.signed_publications import ZooKeeperSignedPublications
from zkdeployment.daemons.agent.trusted_leases import TrustedLeases
from zkdeployment.daemons.agent.trusted_publications import TrustedPublications
from zkdeployment.pools.signed_lease import NAMESPACE as LEASES

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.adapters.zookeeper.client.session import Session


def trusted_leases(publishers: Path, session: Session, *, root: Path) -> TrustedLeases:
    """Return the reader of leases signed by ``publishers``, for the host with this root."""
    return TrustedLeases(
        ZooKeeperSignedLeases(session),
        PublisherKeysFile(
            publishers, LEASES, "the lease of this host is not signed by one of the publishers of this host"
        ),
        VerifiedLeaseFile(root / "var" / "lib" / "zkdeployment" / "verified-lease"),
    )


def trusted_publications(publishers: Path, session: Session, *, root: Path, run: Path) -> TrustedPublications:
    """Return the reader of publications signed by ``publishers``, for the host with this root and run directory.

    The last verified publication is kept below ``root``: a reboot may clear the run directory.
    """
    return TrustedPublications(
        ZooKeeperSignedPublications(session),
        PublisherKeysFile(publishers),
        PublishedFile(root / "var" / "lib" / "zkdeployment" / "verified"),
        VerifiedPropertiesFiles(run / "properties"),
    )

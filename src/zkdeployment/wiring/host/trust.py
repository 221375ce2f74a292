"""Builds what verifies signed publications on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.host_files.published_file import PublishedFile
from zkdeployment.adapters.host_files.verified_lease_file import VerifiedLeaseFile
from zkdeployment.adapters.host_files.verified_properties import VerifiedPropertiesFiles
from zkdeployment.adapters.publisher_keys import PublisherKeysFile, check_keys, unlimited_keys
from zkdeployment.adapters.zookeeper.pools.leases import ZooKeeperSignedLeases
from zkdeployment.adapters.zookeeper.publication.signed_publications import ZooKeeperSignedPublications
from zkdeployment.daemons.agent.trusted_leases import TrustedLeases
from zkdeployment.daemons.agent.trusted_publications import TrustedPublications
from zkdeployment.log import get_logger
from zkdeployment.pools.signed_lease import NAMESPACE as LEASES
from zkdeployment.printable import printable
from zkdeployment.signing.statement import NAMESPACE as PUBLICATIONS

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.adapters.zookeeper.client.session import Session


def check_publishers(publishers: Path) -> str | None:
    """Return what is dangerous in a list of publishers, ``None`` if nothing is, for the check of a configuration.

    Raises ``ConfigurationError`` for a list that cannot be read or has no key: hosts would deploy nothing.
    """
    check_keys(publishers)
    return publishers_warning(publishers)


def publishers_warning(publishers: Path) -> str | None:
    """Return what is dangerous in a list of publishers; ``None`` if nothing is."""
    names = unlimited_keys(publishers)
    if not names:
        return None
    return (
        f"the keys of {printable(', '.join(names))} in {publishers} may sign publications for all hosts, also if"
        f' they belong to workers of host pools: expected namespaces="{PUBLICATIONS}" or'
        f' namespaces="{LEASES}" before each key; add it'
    )


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

    The last verified publication is kept below ``root``: a reboot may clear the run directory. A dangerous list of
    publishers is logged.
    """
    warning = publishers_warning(publishers)
    if warning is not None:
        get_logger().warning("publishers-keys-unlimited", reason=warning)
    return TrustedPublications(
        ZooKeeperSignedPublications(session),
        PublisherKeysFile(publishers),
        PublishedFile(root / "var" / "lib" / "zkdeployment" / "verified", required=True),
        VerifiedPropertiesFiles(run / "properties"),
    )

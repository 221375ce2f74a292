"""Builds the readers that verify signed publications and leases on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.trusted_publications import TrustedPublications
from zkdeployment.agent.files.verified_properties import VerifiedPropertiesFiles
from zkdeployment.base.log import get_logger
from zkdeployment.base.text import printable
from zkdeployment.publishing.keys import (
    LEASES,
    PublisherKeysFile,
    check_keys,
    has_key,
    unlimited_keys,
    useless_keys,
)
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.publishing.signing.statement import NAMESPACE as PUBLICATIONS
from zkdeployment.publishing.store.signed import ZooKeeperSignedPublications
from zkdeployment.publishing.watermark import published_file

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.config.settings import Settings
    from zkdeployment.zookeeper.session import Session


def check_publishers(settings: Settings) -> list[str]:
    """Return warnings about the list of publishers, for the check of a configuration.

    Raises ``ConfigurationError`` for a list that cannot be read, and for a list without a key of the required
    kind: the host would deploy nothing. Only a worker of host pools needs no key of publications.
    """
    publishers = settings.publishers
    if publishers is None:
        without_effect = "minimum-sequence has no effect without publishers; set publishers, or remove it"
        return [without_effect] if settings.minimum_sequence else []
    sync = settings.of(SyncSettings)
    signs_publications = sync is not None and sync.publish_key is not None
    verifies_publications = settings.identity is not None or signs_publications
    check_keys(publishers, PUBLICATIONS, *([] if verifies_publications else [LEASES]))
    warnings = []
    if (warning := publishers_warning(publishers)) is not None:
        warnings.append(warning)
    if useless := useless_keys(publishers, PUBLICATIONS, LEASES):
        warnings.append(
            f"the keys of {printable(', '.join(useless))} in {publishers} may sign neither publications nor"
            f' leases: expected namespaces="{PUBLICATIONS}" or namespaces="{LEASES}" before each key; correct or'
            " remove them"
        )
    if settings.leasable and not has_key(publishers, LEASES):
        warnings.append(
            f"no key in {publishers} may sign leases, so this host follows none: expected a line NAME"
            f' namespaces="{LEASES}" KEYTYPE KEY for each worker of host pools; add it'
        )
    return warnings


def publishers_warning(publishers: Path) -> str | None:
    """Return a warning about a dangerous list of publishers; ``None`` for a safe list."""
    names = unlimited_keys(publishers)
    if not names:
        return None
    return (
        f"the keys of {printable(', '.join(names))} in {publishers} may sign publications for all hosts, also if"
        f' they belong to workers of host pools: expected namespaces="{PUBLICATIONS}" or'
        f' namespaces="{LEASES}" before each key; add it'
    )


def trusted_publications(
    publishers: Path, session: Session, *, root: Path, run: Path, minimum: int = 0
) -> TrustedPublications:
    """Return the reader of publications signed by ``publishers``, for the host with this root and run directory.

    Publications below the sequence ``minimum`` are refused. The last verified publication is kept below ``root``:
    a reboot may clear the run directory. A dangerous list of publishers is logged.
    """
    warning = publishers_warning(publishers)
    if warning is not None:
        get_logger().warning("publishers-keys-unlimited", reason=warning)
    return TrustedPublications(
        ZooKeeperSignedPublications(session),
        PublisherKeysFile(publishers),
        published_file(root / "var" / "lib" / "zkdeployment" / "verified", required=True),
        VerifiedPropertiesFiles(run / "properties"),
        minimum=minimum,
    )

"""Builds the keys that sign publications and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.pools.rules.signed_lease import NAMESPACE as LEASES
from zkdeployment.pools.store.leases import LeaseKeys
from zkdeployment.publishing.keys.publish_key import PublishKey
from zkdeployment.publishing.keys.publisher_keys import PublisherKeysFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.config.settings import Settings


def lease_signer(settings: Settings) -> PublishKey | None:
    """Return the key that signs leases, ``None`` without one; raises as ``publication_signer`` does."""
    key = None if settings.pools is None else settings.pools.lease_key
    return None if key is None else PublishKey(key, LEASES, "lease-key")


def lease_keys(settings: Settings, now: Callable[[], float]) -> LeaseKeys | None:
    """Return the keys of leases, ``None`` if leases are not signed; raises as ``lease_signer`` does."""
    own = lease_signer(settings)
    publishers = settings.publishers
    others = None if publishers is None else PublisherKeysFile(publishers, LEASES, "no worker signed the lease")
    return None if own is None else LeaseKeys(own, now, others)


def publication_signer(settings: Settings) -> PublishKey | None:
    """Return the key that signs publications, ``None`` without one.

    Raises ``ConfigurationError`` unless the file is an SSH private key that can be used.
    """
    key = None if settings.sync is None else settings.sync.publish_key
    return None if key is None else PublishKey(key)

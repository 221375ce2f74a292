"""Builds the keys that sign publications and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.publish_key import PublishKey
from zkdeployment.pools.signed_lease import NAMESPACE as LEASES

if TYPE_CHECKING:
    from zkdeployment.config.settings import Settings


def lease_signer(settings: Settings) -> PublishKey | None:
    """Return the key that signs leases, ``None`` without one; raises ``ConfigurationError`` as the other does."""
    key = settings.pools.lease_key
    return None if key is None else PublishKey(key, LEASES, "lease-key")


def publication_signer(settings: Settings) -> PublishKey | None:
    """Return the key that signs publications, ``None`` without one.

    Raises ``ConfigurationError`` unless the file is an SSH private key that can be used.
    """
    key = None if settings.sync is None else settings.sync.publish_key
    return None if key is None else PublishKey(key)

"""Builds the key that signs publications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.publish_key import PublishKey

if TYPE_CHECKING:
    from zkdeployment.config.settings import Settings


def publication_signer(settings: Settings) -> PublishKey | None:
    """Return the key that signs publications, ``None`` without one.

    Raises ``ConfigurationError`` unless the file is an SSH private key that can be used.
    """
    key = None if settings.sync is None else settings.sync.publish_key
    return None if key is None else PublishKey(key)

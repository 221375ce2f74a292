"""Where a revision of the tree comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Who committed a revision, what for and when (seconds since the epoch, as the committer's clock had it).

    ``subject`` is the first line of the message. ``signer`` is the name and the fingerprint of the key whose
    signature was verified; ``None`` where there is no such signature, or none is asked for.
    """

    author: str
    subject: str
    time: float
    signer: str | None = None

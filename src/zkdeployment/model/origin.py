"""The origin of a revision of the tree: its commit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """The author, the subject and the time of a commit, in seconds since the epoch by the committer's clock.

    ``subject`` is the first line of the commit message. ``signer`` is the name and the fingerprint of the key
    whose signature was verified; ``None`` without such a signature, or if none is required.
    """

    author: str
    subject: str
    time: float
    signer: str | None = None

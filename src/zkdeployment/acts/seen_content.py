"""Acts cover only a content that their author has seen."""

from __future__ import annotations

from zkdeployment.errors import RefusedError


def require_seen(subject: str, found: str, *seen: str | None) -> None:
    """Raise ``RefusedError`` if the digest that was ``found`` is not among those that the author has seen.

    An author who named no digest is not asked.
    """
    named = [digest for digest in seen if digest is not None]
    if named and found not in named:
        raise RefusedError(
            f"the content of {subject} changed after it was shown: expected {' or '.join(named)}, found {found};"
            " review it again, then approve it"
        )

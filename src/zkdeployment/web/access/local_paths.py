"""Paths of this site, as the target of a redirect."""

from __future__ import annotations

import re

#: A path with an optional query. Browsers read ``//`` and ``/\\`` as the beginning of a foreign address.
_LOCAL = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")

_MOST_CHARACTERS = 2000


def local_path(target: str) -> str:
    """Return ``target`` if it is a path of this site with an optional query, else the path of the front page."""
    return target if len(target) <= _MOST_CHARACTERS and _LOCAL.fullmatch(target) else "/"

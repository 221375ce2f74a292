"""Runs code as another user."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run this root process as an unprivileged user while the context is open."""
    os.setresuid(_NOBODY, _NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)

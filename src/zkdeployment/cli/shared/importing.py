"""How the modules of a verb are imported when the verb is called."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage while modules are imported, nor among their objects later: they stay until the end.

    Otherwise Python searches these objects again and again while it imports, and once more when it exits.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

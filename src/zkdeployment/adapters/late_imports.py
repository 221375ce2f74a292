"""Imports of libraries that most processes of a program never need, so that the others need less memory.

An upgrade of zkdeployment or of Python may replace or move a library under a running process, which can then not
import it any more.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.errors import RestartError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def late_import() -> Iterator[None]:
    """Raise ``RestartError`` if a library cannot be imported inside the block.

    A new library may also expect an attribute that a module in memory does not have.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise RestartError(
            f"a library cannot be imported: {error}; if an upgrade has just replaced it, a restart of this process"
            " helps, otherwise install zkdeployment again"
        ) from error

"""The file that marks a run that did not come to its end: written first, removed last, else it says why."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import error_message, without_secrets
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def unfinished(directory: Path) -> Iterator[None]:
    """Keep the mark beside a directory that is worked with, after an error with its reason.

    That it cannot be written is logged, and changes nothing.
    """
    file = directory.with_name(f".{directory.name}.unfinished")
    _write(file, "under way, or killed")
    try:
        yield
    except Exception as error:
        _write(file, without_secrets(error_message(error)))
        raise
    with contextlib.suppress(OSError):
        durable.remove(file)


def _write(file: Path, words: str) -> None:
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    content = f"{began} process {os.getpid()}: {words}\n".encode("utf-8", errors="backslashreplace")
    try:
        durable.replace(file, content, sync=False)
    except OSError as error:
        get_logger().warning("mark-not-written", file=str(file), reason=error.strerror)

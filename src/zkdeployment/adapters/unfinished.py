"""The file that marks an unfinished run: written at the start, removed after success, kept after an error."""

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
    """Keep a marker file beside ``directory`` inside the block; after an error, the file stays with the reason.

    If the file cannot be written, that is only logged.
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


def _write(file: Path, state: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    content = f"{now} process {os.getpid()}: {state}\n".encode("utf-8", errors="backslashreplace")
    try:
        durable.replace(file, content, sync=False)
    except OSError as error:
        get_logger().warning("unfinished-mark-not-written", file=str(file), reason=error.strerror)

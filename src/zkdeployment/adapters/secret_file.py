"""Files with a secret of the service."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_MAX_BYTES = 4096


def read_secret(file: Path) -> str:
    """Return the only line of a file; raises ``ConfigurationError`` if everyone has access to the file."""
    try:
        with file.open("rb") as opened:
            check_private(file)
            secret = opened.read(_MAX_BYTES).decode("utf-8", errors="replace").strip()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    if not secret or len(secret.splitlines()) != 1:
        raise ConfigurationError(f"expected one line with a secret in {file}, found other content")
    return secret


def check_private(file: Path) -> None:
    """Raise ``ConfigurationError`` if everyone has access to a file; raises ``OSError`` for a missing one."""
    if file.is_dir():
        raise ConfigurationError(f"{file} is a directory: expected a file")
    if (mode := stat.S_IMODE(file.stat().st_mode)) & stat.S_IRWXO:
        raise ConfigurationError(f"everyone has access to {file} (mode {mode:03o}); run chmod o-rwx {file}")

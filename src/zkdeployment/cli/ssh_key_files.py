"""The option ``--ssh-key`` of verbs: files with public keys for SSH."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.public_keys import ssh_keys_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Bytes; no list of public keys is longer.
_LONGEST_FILE = 16_384


def ssh_key_option(text: str) -> Callable[[Any], Any]:
    """Return the option ``--ssh-key`` with the files that ``read_ssh_keys`` reads."""
    return click.option(
        "--ssh-key",
        "ssh_key_files",
        metavar="FILE",
        type=click.Path(path_type=Path),
        multiple=True,
        help=f"{text} The file has one key in each line; repeat the option for more files (at most 10 keys).",
    )


def read_ssh_keys(files: Sequence[Path]) -> str | None:
    """Return the public keys in all files, one in each line; ``None`` without files.

    Raises ``ConfigurationError`` if a file cannot be read, or has other content.
    """
    if not files:
        return None
    keys = "\n".join(map(_read_ssh_key_file, files))
    problem = ssh_keys_problem(keys)
    if problem is not None:
        raise ConfigurationError(f"--ssh-key: {problem}")
    return keys


def _read_ssh_key_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST_FILE + 1).decode("utf-8", errors="replace").strip()
    except OSError as error:
        raise ConfigurationError(f"--ssh-key: cannot read {file}: {error.strerror}") from error
    problem = ssh_keys_problem(text)
    if problem is not None:
        raise ConfigurationError(f"--ssh-key: {file}: {problem}")
    return text

"""Options of verbs that act on the fleet: reasons, overrides, public keys; and the record of such an act."""

from __future__ import annotations

import functools
import getpass
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkdeployment.base.act import Act, sanitize
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine.public_keys import ssh_keys_problem
from zkdeployment.publishing.records import GuardOverrides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

R = TypeVar("R")

#: Bytes; no list of public keys is longer.
_LONGEST_FILE = 16_384


def reason_option(*, required: bool) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add ``--reason``; the verb receives ``reason``, one printable line."""

    def read(_context: click.Context, _option: click.Parameter, given: str | None) -> str:
        reason = sanitize(given or "")
        if required and not reason:
            raise click.BadParameter("the reason is empty: expected a few words, --reason TEXT")
        return reason

    return click.option(
        "--reason",
        metavar="TEXT",
        callback=read,
        help="The reason; it is recorded and shown to all operators.",
    )


def strategy_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--strategy`` of rollbacks; the verb receives ``former_strategy``."""
    return click.option(
        "--strategy",
        "former_strategy",
        type=click.Choice(["present", "former"]),
        default="present",
        show_default=True,
        callback=lambda _context, _option, given: given == "former",
        help="The strategy that governs the rollback: that of the branch, or that of REVISION.",
    )(function)


def override_flags(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options that override guards of a publication; the verb receives a flag for each."""
    texts = {
        "--allow-rewind": "Publish a revision even if it does not descend from the published revision.",
        "--allow-mass-removal": "Publish a revision even if it removes more than 30 % of the deployments.",
        "--allow-package-problems": "Publish a revision even if hosts could not install its packages.",
    }
    for name, text in reversed(texts.items()):
        function = click.option(name, is_flag=True, help=text)(function)
    return function


def override_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options that override guards of a publication; the verb receives ``overrides``."""

    @override_flags
    @functools.wraps(function)
    def wrapped(
        *args: object,
        allow_rewind: bool,
        allow_mass_removal: bool,
        allow_package_problems: bool,
        **options: object,
    ) -> R:
        overrides = GuardOverrides(allow_rewind, allow_mass_removal, allow_package_problems)
        return function(*args, overrides=overrides, **options)

    return wrapped


def new_act(action: str, reason: str) -> Act:
    """Return the record of an act by the present user on this machine, at the present time."""
    return Act(by=recorded_name(), what=action, reason=reason, time=time.time())


def recorded_name() -> str:
    """Return the name of the user in records of acts: ``USER@HOST``."""
    return sanitize(f"{current_user()}@{socket.gethostname()}")


def current_user() -> str:
    """Return the name of the user, also of a user who became root with sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):  # the user id has no name on this machine
        return f"uid {os.getuid()}"


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

"""What verbs share that do something to the fleet: who does it, why, and what they allow."""

from __future__ import annotations

import functools
import getpass
import os
import socket
import time
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.model.act import Act, sanitize
from zkdeployment.model.publication import GuardOverrides

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


def reason_option(*, required: bool) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add ``--reason``; the verb is passed ``reason``, one printable line."""

    def read(_context: click.Context, _option: click.Parameter, given: str | None) -> str:
        reason = sanitize(given or "")
        if required and not reason:
            raise click.BadParameter("say why in a few words: --reason TEXT")
        return reason

    return click.option(
        "--reason",
        metavar="TEXT",
        callback=read,
        help="Why; kept, and shown to everybody.",
    )


def permit_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add what is refused otherwise, also by force; the verb is passed ``overrides``."""

    @click.option(
        "--allow-rewind",
        is_flag=True,
        help="Publish also a revision that does not descend from the published one.",
    )
    @click.option(
        "--allow-mass-removal", is_flag=True, help="Publish also what ends more than 30 % of the deployments."
    )
    @functools.wraps(function)
    def wrapped(*args: object, allow_rewind: bool, allow_mass_removal: bool, **options: object) -> R:
        overrides = GuardOverrides(rewind=allow_rewind, mass_removal=allow_mass_removal)
        return function(*args, overrides=overrides, **options)

    return wrapped


def act(what: str, reason: str) -> Act:
    """Return what is being done, by this user on this machine, now."""
    return Act(by=sanitize(f"{_user()}@{socket.gethostname()}"), what=what, reason=reason, time=time.time())


def _user() -> str:
    """Return who is at the keyboard: whoever became root with sudo has a name."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):  # no such user on this machine
        return f"uid {os.getuid()}"

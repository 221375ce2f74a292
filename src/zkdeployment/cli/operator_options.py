"""Options of verbs that act on the fleet, and the record of such an act: its operator, reason and overrides."""

from __future__ import annotations

import functools
import getpass
import os
import socket
import time
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.base.act import Act, sanitize
from zkdeployment.publishing.records import GuardOverrides

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


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


def override_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options that override guards of a publication; the verb receives ``overrides``."""

    @click.option(
        "--allow-rewind",
        is_flag=True,
        help="Publish a revision even if it does not descend from the published revision.",
    )
    @click.option(
        "--allow-mass-removal",
        is_flag=True,
        help="Publish a revision even if it removes more than 30 % of the deployments.",
    )
    @click.option(
        "--allow-package-problems",
        is_flag=True,
        help="Publish a revision even if hosts could not install its packages.",
    )
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
    by = sanitize(f"{current_user()}@{socket.gethostname()}")
    return Act(by=by, what=action, reason=reason, time=time.time())


def current_user() -> str:
    """Return the name of the user, also of a user who became root with sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):  # the user id has no name on this machine
        return f"uid {os.getuid()}"

"""The option ``--majority`` of the verbs of split updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.errors import ConfigurationError
from zkdeployment.providers.selection import DEFAULT_MAJORITY, parse_majority

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

R = TypeVar("R")


def majority_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--majority``; the verb receives ``majority``, a percentage over 50."""
    return click.option(
        "--majority",
        metavar="PERCENT",
        default=DEFAULT_MAJORITY,
        show_default=True,
        callback=_parse,
        help="The share of the instances that another version needs.",
    )(function)


def _parse(_context: click.Context, _parameter: click.Parameter, given: str) -> Fraction:
    try:
        return parse_majority(given)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error

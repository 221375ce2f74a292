"""The type of options that are a number of seconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from zkdeployment.config.section import LONGEST_WAIT

if TYPE_CHECKING:
    from typing import Any


class _Seconds(click.FloatRange):
    """A number of seconds from 0 to a year; ``nan`` is refused."""

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST_WAIT)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or fail with what was expected."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"expected a number of seconds, found {value!r}", param, ctx)
        return seconds


SECONDS = _Seconds()

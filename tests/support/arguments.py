"""Types of the arguments of scripts, which explain themselves with the standard library alone."""

from __future__ import annotations

import argparse
import math


def positive_number(text: str) -> float:
    """Return a number above 0; raises ``ArgumentTypeError``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return number


def count(text: str) -> int:
    """Return a whole number from 1 on; raises ``ArgumentTypeError``."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return int(text)

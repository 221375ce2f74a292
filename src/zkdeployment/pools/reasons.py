"""The length of reasons: what nodes and playbooks print may be of any length."""

from __future__ import annotations

#: The most characters of a recorded reason.
_LONGEST = 2000

#: The most characters of a value in a message.
_LONGEST_VALUE = 200


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text with its beginning and its end, and without its middle if it is longer than ``longest``."""
    if len(text) <= longest:
        return text
    left_out = " [...] "
    end = (longest - len(left_out)) // 2
    return f"{text[: longest - len(left_out) - end]}{left_out}{text[len(text) - end :]}"


def shown(value: object) -> str:
    """Return a value as a message shows it."""
    return shortened(repr(value), _LONGEST_VALUE)

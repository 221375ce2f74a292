"""Arguments of checks: templates with placeholders in braces, as in ``{host.address}``.

``{{`` and ``}}`` stand for braces. A brace without a partner stands for itself. Values that take the place of a
placeholder are never searched for placeholders again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.documents.forms import one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.documents.checks.values import CheckConfiguration

_PARTS = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")

#: The placeholders whose names stand alone.
PLAIN_PLACEHOLDERS = ("host.address", "host.id", "host.name", "number", "path")


def placeholders(template: str) -> Iterator[str]:
    """Yield the names of the placeholders of a template: ``host.address`` for ``{host.address}``."""
    return (part[1:-1] for part in _PARTS.split(template) if _is_placeholder(part))


def filled(template: str, value: Callable[[str], str]) -> str:
    """Return a template in which the value of each placeholder takes its place."""
    return "".join(_text(part, value) for part in _PARTS.split(template))


def unknown_placeholder(configuration: CheckConfiguration, name: str) -> str | None:
    """Return why a placeholder cannot have a value in a configuration; ``None`` if it may have one."""
    kind, _, key = name.partition(".")
    levels = [threshold.level for threshold in configuration.thresholds]
    match kind:
        case _ if name in PLAIN_PLACEHOLDERS or (kind == "property" and key):
            return None
        case "threshold" if key in levels:
            return None
        case "threshold" if levels:
            return f"unknown placeholder {{{name}}}; the configuration has the thresholds {', '.join(levels)}"
        case "attribute" if key in configuration.constraints.attributes:
            return None
        case "attribute" if key:
            return f"unknown placeholder {{{name}}}; add the constraint attribute: {key}"
        case _:
            known = [f"{{{plain}}}" for plain in PLAIN_PLACEHOLDERS]
            others = [f"{{{kind}.NAME}}" for kind in ("property", "attribute", "threshold")]
            return f"unknown placeholder {{{name}}}; expected {one_of([*known, *others])}, or {{{{ for a brace"


def _text(part: str, value: Callable[[str], str]) -> str:
    if part in {"{{", "}}"}:
        return part[0]
    return value(part[1:-1]) if _is_placeholder(part) else part


def _is_placeholder(part: str) -> bool:
    return part.startswith("{") and part.endswith("}") and len(part) > 1

"""Arguments of checks: templates with placeholders in braces, as in ``{host.address}``.

``{{`` and ``}}`` stand for braces. A brace without a partner stands for itself. Values that take the place of a
placeholder are never searched for placeholders again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.documents.forms import one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.documents.checks.values import CheckConfiguration

_PARTS = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")

#: The placeholders for values of a host and of the number of a deployment on it.
HOST_PLACEHOLDERS = ("host.address", "host.id", "host.name", "number")

#: All placeholders whose names stand alone.
_PLAIN = (*HOST_PLACEHOLDERS, "path")


@dataclass(frozen=True, slots=True)
class ArgumentPart:
    """A part of an argument: literal text, or the name of a placeholder."""

    text: str
    is_placeholder: bool = False


def argument_parts(template: str) -> tuple[ArgumentPart, ...]:
    """Return the parts of a template, without empty ones."""
    return tuple(_part(part) for part in _PARTS.split(template) if part)


def placeholders(template: str) -> Iterator[str]:
    """Yield the names of the placeholders of a template: ``host.address`` for ``{host.address}``."""
    return (part.text for part in argument_parts(template) if part.is_placeholder)


def named_properties(configuration: CheckConfiguration) -> frozenset[str]:
    """Return the names of the properties that the constraints and the arguments of a configuration name."""
    names = {name for name, _ in configuration.constraints.properties}
    names |= {*configuration.constraints.attributes}
    for template in configuration.arguments:
        for placeholder in placeholders(template):
            kind, _, name = placeholder.partition(".")
            if kind == "property":
                names.add(name)
    return frozenset(names)


def with_values(parts: Iterable[ArgumentPart], values: Mapping[str, str]) -> tuple[ArgumentPart, ...]:
    """Return the parts with the values of these placeholders as text; adjacent text is joined."""
    joined: list[ArgumentPart] = []
    for part in parts:
        if part.is_placeholder and part.text not in values:
            joined.append(part)
            continue
        text = values[part.text] if part.is_placeholder else part.text
        if joined and not joined[-1].is_placeholder:
            text = joined.pop().text + text
        joined.append(ArgumentPart(text))
    return tuple(joined)


def argument_text(parts: Iterable[ArgumentPart], values: Mapping[str, str]) -> str:
    """Return the text of an argument, with the values of all of its placeholders."""
    return "".join([values[part.text] if part.is_placeholder else part.text for part in parts])


def unknown_placeholder(configuration: CheckConfiguration, name: str) -> str | None:
    """Return why a placeholder cannot have a value in a configuration; ``None`` if it may have one."""
    kind, _, key = name.partition(".")
    levels = [threshold.level for threshold in configuration.thresholds]
    match kind:
        case _ if name in _PLAIN or (kind == "property" and key):
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
            known = [f"{{{plain}}}" for plain in _PLAIN]
            others = [f"{{{kind}.NAME}}" for kind in ("property", "attribute", "threshold")]
            return f"unknown placeholder {{{name}}}; expected {one_of([*known, *others])}, or {{{{ for a brace"


def _part(part: str) -> ArgumentPart:
    if part in {"{{", "}}"}:
        return ArgumentPart(part[0])
    is_placeholder = len(part) > 1 and part.startswith("{") and part.endswith("}")
    return ArgumentPart(part[1:-1], is_placeholder=True) if is_placeholder else ArgumentPart(part)

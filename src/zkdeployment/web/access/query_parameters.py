"""The parameters in the addresses of requests: an operation of the API refuses those that it does not have."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

# FastAPI reads this annotation when it analyses the dependency.
from fastapi import Request  # noqa: TC002

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute

#: The most characters of a parameter, and the most unknown parameters, in a message.
_LONGEST = 100
_MOST = 5


async def check_parameters(request: Request) -> None:
    """Raise ``ConfigurationError`` for a parameter that the operation does not have, such as a misspelt filter."""
    if not request.query_params:
        return
    known = known_parameters(request.scope["route"])
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        raise ConfigurationError("; ".join(_message(name, known) for name in unknown[:_MOST]))


def known_parameters(route: APIRoute) -> frozenset[str]:
    """Return the names of the parameters that an operation has in its address."""
    return frozenset(_names(route.dependant))


def _names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for each in dependant.dependencies:
        yield from _names(each)


def _message(name: str, known: frozenset[str]) -> str:
    shown = ascii(name[:_LONGEST])
    if not known:
        return f"unknown parameter {shown}: expected no parameters"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown parameter {shown}: {hint}expected one of: {', '.join(sorted(known))}"

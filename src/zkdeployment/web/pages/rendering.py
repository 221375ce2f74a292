"""Rendering of pages from templates; every value is escaped."""

from __future__ import annotations

import hashlib
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zkdeployment.printable import printable, printable_lines
from zkdeployment.web.access.cookies import form_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request

#: The folder of style sheets, scripts and icons.
STATIC = files("zkdeployment.web") / "static"


@cache
def asset(name: str) -> str:
    """Return the address of a static file; it changes with the content, so that browsers keep the file."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


def _visible(value: object) -> object:
    """Return a value for a page: characters that are invisible or change the direction of text are escaped."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """Return a text of several lines for a page: line breaks and tabs stay."""
    return Markup.escape(printable_lines(text))


_TEMPLATES = Environment(
    loader=PackageLoader("zkdeployment.web"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["asset"] = asset
_TEMPLATES.filters["lines"] = _lines

_TEMPLATES.globals["form_token"] = form_token


def render_page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: object,
) -> HTMLResponse:
    """Return a page made from a template and its values."""
    return HTMLResponse(render(template, request=request, **values), status, headers=dict(headers or {}))


def render(template: str, **values: object) -> str:
    """Return the text of a page."""
    return _TEMPLATES.get_template(template).render(values)


def error_page(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Return the page that reports an error."""
    title = HTTPStatus(status).phrase
    return render_page(
        request, "error.html", status=status, headers=headers, title=title, detail=detail, retry=status == 503
    )

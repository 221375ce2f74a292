"""Rendering of pages from templates; every value is escaped."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from zkdeployment.web.access.cookies import form_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request

_TEMPLATES = Environment(
    loader=PackageLoader("zkdeployment.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

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
    text = _TEMPLATES.get_template(template).render(request=request, **values)
    return HTMLResponse(text, status, headers=dict(headers or {}))


def error_page(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Return the page that reports an error."""
    title = HTTPStatus(status).phrase
    return render_page(request, "error.html", status=status, headers=headers, title=title, detail=detail)

"""``/static`` and ``/docs``: the files of the pages, and the description of the API for people."""

import mimetypes

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.service.access import cookies
from zkdeployment.service.pages.live_page import STATIC, render_page
from zkdeployment.service.views.api_description import api_page

router = APIRouter(include_in_schema=False)

#: The addresses contain a digest of the content, so a file at an address never changes.
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}

_FILES = {file.name: file.read_bytes() for file in STATIC.iterdir() if file.is_file()}


@router.get("/static/{name}")
async def show_file(name: str) -> Response:
    """Return a static file."""
    if name not in _FILES:
        raise HTTPException(404, f"there is no file {name}")
    kind, _ = mimetypes.guess_type(name)
    return Response(_FILES[name], media_type=kind or "text/plain", headers=_HEADERS)


@router.get("/docs")
def show_description(request: Request) -> Response:
    """Return the page that describes the API; it needs no login, as the description names no fleet's data."""
    page = api_page(request.app.openapi(), cookies.site_of(request).url)
    return render_page(request, "api_docs.html", page=page)

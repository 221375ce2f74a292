"""``/static`` and ``/docs``: the files of the pages, and the description of the API for people."""

import mimetypes
from importlib.resources import files
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.service.access.headers import CONTENT_SECURITY_POLICY
from zkdeployment.service.pages.live_page import STATIC, render_page

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


_TYPES = {
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}

#: The style sheet of Swagger UI contains its icons.
_POLICY = CONTENT_SECURITY_POLICY.replace("img-src 'self'", "img-src 'self' data:")

_SWAGGER_FILES = files("zkdeployment.service") / "static" / "swagger"


@router.get("/docs")
def show_description(request: Request) -> Response:
    """Return the page that shows the description of the API."""
    return render_page(request, "api_docs.html", headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/{name}")
def read_file(name: Literal["start.js", "swagger-ui-bundle.js", "swagger-ui.css"]) -> Response:
    """Return a script or style sheet of that page."""
    headers = {"Cache-Control": "public, max-age=86400"}
    return Response((_SWAGGER_FILES / name).read_bytes(), media_type=_TYPES[name], headers=headers)

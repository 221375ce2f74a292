"""``/static``: the style sheet, the scripts and the icon of the pages."""

import mimetypes

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.web.pages.rendering import STATIC

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

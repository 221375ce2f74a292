"""``/docs``: the description of the API for people, shown by Swagger UI, which is shipped with the service."""

from importlib.resources import files
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from zkdeployment.web.access.headers import CONTENT_SECURITY_POLICY
from zkdeployment.web.pages.rendering import render_page

router = APIRouter(include_in_schema=False)

_TYPES = {
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
}

#: The style sheet of Swagger UI contains its icons.
_POLICY = CONTENT_SECURITY_POLICY.replace("img-src 'self'", "img-src 'self' data:")

_FILES = files("zkdeployment.web") / "static" / "swagger"


@router.get("/docs")
def show_description(request: Request) -> Response:
    """Return the page that shows the description of the API."""
    return render_page(request, "api_docs.html", headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/{name}")
def read_file(name: Literal["start.js", "swagger-ui-bundle.js", "swagger-ui.css"]) -> Response:
    """Return a script or style sheet of that page."""
    headers = {"Cache-Control": "public, max-age=86400"}
    return Response((_FILES / name).read_bytes(), media_type=_TYPES[name], headers=headers)

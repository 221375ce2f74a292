"""``/schemas``: the JSON schemas of all documents, for editors; reading them needs no login."""

from functools import cache
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from zkdeployment.editors.rules.schemas import document_schemas

router = APIRouter(include_in_schema=False)

_HEADERS = {"Cache-Control": "public, max-age=3600"}


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    return document_schemas()


@router.get("/schemas")
def list_schemas() -> JSONResponse:
    """Return the path of the schema of each kind of documents, by the kind's name."""
    return JSONResponse({name: f"/schemas/{name}.json" for name in _schemas()}, headers=_HEADERS)


@router.get("/schemas/{name}.json")
def show_schema(name: str) -> JSONResponse:
    """Return the schema of one kind of documents, or ``documents`` for files with any of them."""
    if name not in _schemas():
        raise HTTPException(404, f"there is no schema {name}; /schemas lists them")
    return JSONResponse(_schemas()[name], headers=_HEADERS, media_type="application/schema+json")


ROUTERS = (router,)

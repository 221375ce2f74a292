"""Protection of requests that change something against foreign pages, which let a browser send them.

Programs authenticate with a key in each request and are not concerned. A request from a browser comes from a page
of this site, and proves it with a form token.
"""

from urllib.parse import urlsplit

from fastapi import Request
from starlette.exceptions import HTTPException

from zkdeployment.web.access.cookies import form_secrets, site_of
from zkdeployment.web.access.form_tokens import is_form_token

#: Requests with these methods change nothing.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

#: The header and the form field of a form token.
FORM_HEADER = "X-CSRF-Token"
FORM_FIELD = "csrf_token"

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


async def forbid_cross_site(request: Request) -> None:
    """Refuse (403) a request of a browser that changes something and does not come from a page of this site."""
    if request.method in SAFE_METHODS:
        return
    if is_cross_site(request):
        raise HTTPException(403, "the request came from a page of another site, which is not allowed")
    if request.headers.get("Authorization", "").lower().startswith("basic "):
        return
    if form_secrets(request):
        await require_form_token(request)


async def require_form_token(request: Request) -> None:
    """Refuse (403) a request without a valid form token."""
    token = request.headers.get(FORM_HEADER)
    if token is None and request.headers.get("Content-Type", "").startswith(_FORMS):
        field = (await request.form()).get(FORM_FIELD)
        token = field if isinstance(field, str) else None
    if not any(is_form_token(token or "", secret) for secret in form_secrets(request)):
        raise HTTPException(
            403,
            "the form has expired, or the browser sent no cookie: expected a form of the present login session;"
            " load the page again, and allow cookies for this site",
        )


def is_cross_site(request: Request) -> bool:
    """Return whether a page of another site caused a request, according to the browser; programs send none."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = request.headers.get("Origin")
    if origin is None:
        return False
    return urlsplit(origin).netloc not in {request.headers.get("Host", ""), site_of(request).authority}

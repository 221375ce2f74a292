"""The cookies of browsers, and the protection of forms against requests from foreign pages.

A token is derived from a secret that only the browser's cookie contains, so all services accept the forms of each
other. Each form has a token of its own, so that the compression of pages cannot reveal the secret. A browser's
request that changes something has to come from a page of this site, and proves that with a form token. Programs
authenticate with a key in each request and need no token.
"""

import hashlib
import hmac
import secrets
from urllib.parse import quote, unquote, urlsplit

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from zkdeployment.service.site import Site


def make_form_token(secret: str, nonce: str) -> str:
    """Return the token for a form; ``nonce`` is different for each form and contains no dot."""
    digest = hmac.new(secret.encode(), f"form:{nonce}".encode(), hashlib.sha256).hexdigest()
    return f"{nonce}.{digest}"


def is_form_token(token: str, secret: str) -> bool:
    """Return whether a token was made with this secret."""
    nonce, _, _ = token.partition(".")
    return hmac.compare_digest(make_form_token(secret, nonce).encode(), token.encode())


#: Seconds that a login at an OpenID provider may take.
_OPENID_SECONDS = 900


def session_token(request: Request) -> str | None:
    """Return the token of the login session that a request belongs to."""
    return request.cookies.get(_name(site_of(request), "session"))


def form_secrets(request: Request) -> list[str]:
    """Return the secrets from which the tokens of this browser's forms may have been made."""
    names = (_name(site_of(request), "session"), _name(site_of(request), "login"))
    return [request.cookies[name] for name in names if request.cookies.get(name)]


def form_token(request: Request) -> str:
    """Return a new token for a form of a page; it is empty if the browser has no cookie."""
    return next((new_form_token(secret) for secret in form_secrets(request)), "")


def new_form_token(secret: str) -> str:
    """Return a new token for a form."""
    return make_form_token(secret, secrets.token_hex(16))


def new_login_secret() -> str:
    """Return a secret for a browser that has no login session."""
    return secrets.token_urlsafe(32)


def set_session(request: Request, response: Response, token: str) -> None:
    """Set the cookie of a login session, which ends when the browser is closed; delete the login form's cookie."""
    _set(site_of(request), response, "session", token)
    _delete(site_of(request), response, "login")


def end_session(request: Request, response: Response) -> None:
    """Delete the cookie of the login session."""
    _delete(site_of(request), response, "session")


def set_login_secret(request: Request, response: Response, secret: str) -> None:
    """Set the cookie with the secret of the login form."""
    _set(site_of(request), response, "login", secret)


def set_openid_attempt(request: Request, response: Response, secret: str, target: str) -> None:
    """Set the short-lived cookie of a login at an OpenID provider: its secret and the page to return to.

    The browser sends this cookie although the request comes from the provider's site.
    """
    value = f"{secret}.{quote(target, safe='')}"
    site = site_of(request)
    response.set_cookie(
        _name(site, "openid"),
        value,
        max_age=_OPENID_SECONDS,
        path="/",
        secure=site.encrypted,
        httponly=True,
        samesite="lax",
    )


def openid_attempt(request: Request) -> tuple[str, str] | None:
    """Return the secret of the browser's login at an OpenID provider, and the page to return to."""
    secret, dot, target = request.cookies.get(_name(site_of(request), "openid"), "").partition(".")
    return (secret, unquote(target)) if dot and secret else None


def end_openid_attempt(request: Request, response: Response) -> None:
    """Delete the cookie of the login at an OpenID provider."""
    _delete(site_of(request), response, "openid")


def site_of(request: Request) -> Site:
    """Return the site that a request was sent to."""
    site: Site = request.app.state.site
    return site


def _name(site: Site, name: str) -> str:
    # Browsers accept the prefix only from the host itself, over TLS, for all paths.
    return f"__Host-{name}" if site.encrypted else name


#: Seconds for which a browser remembers the arrangement of the map: a year.
_MAP_SECONDS = 365 * 86_400


def keep_map(request: Request, response: Response, order: str) -> None:
    """Let the browser remember the arrangement of the map of hosts."""
    site = site_of(request)
    response.set_cookie(
        _name(site, "map"),
        order,
        max_age=_MAP_SECONDS,
        path="/",
        secure=site.encrypted,
        httponly=True,
        samesite="strict",
    )


def kept_map(request: Request) -> str:
    """Return the arrangement of the map that the browser remembers; empty without one."""
    return request.cookies.get(_name(site_of(request), "map"), "")


def _set(site: Site, response: Response, name: str, value: str) -> None:
    response.set_cookie(
        _name(site, name), value, path="/", secure=site.encrypted, httponly=True, samesite="strict"
    )


def _delete(site: Site, response: Response, name: str) -> None:
    response.delete_cookie(_name(site, name), path="/", secure=site.encrypted, httponly=True, samesite="strict")


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
    """Return whether the browser reports that a page of another site caused a request; programs report nothing."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = request.headers.get("Origin")
    if origin is None:
        return False
    return urlsplit(origin).netloc not in {request.headers.get("Host", ""), site_of(request).authority}

"""The cookies of browsers: the login session, and a secret for the login form before there is a session."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from zkdeployment.web.access.form_tokens import make_form_token

if TYPE_CHECKING:
    from fastapi import Request, Response

    from zkdeployment.web.site import Site

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
    """Set the cookie of a login session until the browser is closed; remove the secret of the login form."""
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

    The browser sends this cookie although it comes from the provider's site.
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


def _set(site: Site, response: Response, name: str, value: str) -> None:
    response.set_cookie(
        _name(site, name), value, path="/", secure=site.encrypted, httponly=True, samesite="strict"
    )


def _delete(site: Site, response: Response, name: str) -> None:
    response.delete_cookie(_name(site, name), path="/", secure=site.encrypted, httponly=True, samesite="strict")

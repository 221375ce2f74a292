"""Tokens that prove that a form was made by this service for this browser (protection against request forgery).

A token is derived from a secret that only the browser's cookie contains, so all services accept the forms of each
other. Each form has another token, which keeps the compression of pages from revealing the secret.
"""

from __future__ import annotations

import hashlib
import hmac


def make_form_token(secret: str, nonce: str) -> str:
    """Return the token for a form; ``nonce`` is different for each form and contains no dot."""
    digest = hmac.new(secret.encode(), f"form:{nonce}".encode(), hashlib.sha256).hexdigest()
    return f"{nonce}.{digest}"


def is_form_token(token: str, secret: str) -> bool:
    """Return whether a token was made with this secret."""
    nonce, _, _ = token.partition(".")
    return hmac.compare_digest(make_form_token(secret, nonce).encode(), token.encode())

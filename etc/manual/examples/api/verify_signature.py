"""Verify the signature of an event."""

import hashlib
import hmac


def is_authentic(body: bytes, signature: str, key: str) -> bool:
    """Whether the header X-Zkdeployment-Signature of a request fits its body."""
    expected = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())

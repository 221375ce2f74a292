"""Public keys for SSH, as lines of ``authorized_keys``."""

from __future__ import annotations

import re

#: A line of ``authorized_keys`` without options: type, key and comment.
_SSH_KEY = re.compile(
    r"(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]{60,8000}={0,3}(?: [ -~]{0,255})?"
)


def ssh_key_problem(text: str) -> str | None:
    """Return why a text is not a public key for SSH; ``None`` if it is one.

    The key becomes a line of ``authorized_keys`` on hosts, so it must be one line, without options.
    """
    if _SSH_KEY.fullmatch(text) is not None:
        return None
    expected = "expected one line, TYPE KEY [COMMENT], as in ~/.ssh/id_ed25519.pub"
    if "PRIVATE KEY" in text:
        return f"{expected}, found a private key; never give that away"
    return f"{expected}, found {'nothing' if not text else 'other text'}"

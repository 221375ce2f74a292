"""Public keys for SSH, as lines of ``authorized_keys``."""

from __future__ import annotations

import re

#: A line of ``authorized_keys`` without options: type, key and comment.
_SSH_KEY = re.compile(
    r"(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]{60,8000}={0,3}(?: [ -~]{0,255})?"
)


#: The most keys of a tenant or of a session, and the most characters in all keys, so that records stay small.
_MOST_KEYS = 10
_LONGEST = 16_384


def ssh_keys_problem(text: str) -> str | None:
    """Return why a text is not a list of public keys for SSH, one in each line; ``None`` if it is one."""
    if len(text) > _LONGEST:
        return f"expected at most {_LONGEST} characters in all keys, found {len(text)}"
    keys = split_ssh_keys(text)
    if len(keys) > _MOST_KEYS:
        return f"expected at most {_MOST_KEYS} keys, one in each line, found {len(keys)}"
    problems = [problem for key in keys if (problem := ssh_key_problem(key)) is not None]
    if not problems or len(keys) == 1:
        return next(iter(problems), None)
    numbers = (number for number, key in enumerate(keys, 1) if ssh_key_problem(key) is not None)
    return f"line {next(numbers)}: {problems[0]}"


def split_ssh_keys(text: str | None) -> tuple[str, ...]:
    """Return the keys in a text with one key in each line; ``None`` has no keys. Repeated lines count once."""
    return () if text is None else tuple(dict.fromkeys(text.split("\n")))


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

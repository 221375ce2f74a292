"""Hashes of users' keys (argon2id), and the keys that this process verified a moment ago."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
from collections import OrderedDict

import argon2

#: Parameters that OWASP recommends: 19 MiB and some 20 ms for a key. Keys are random, not chosen by people.
_MEMORY = 19 * 1024  # KiB
_ROUNDS = 2

#: The number of keys that are compared at the same time: guesses must not occupy more than half of the processors.
_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)

#: Characters; no key is longer.
_LONGEST = 200

#: The number of verified keys that are remembered.
_REMEMBERED = 1000


class KeyHasher:
    """Hashes keys and compares keys with hashes; a comparison takes the same time with any outcome."""

    def __init__(self) -> None:
        self._argon = argon2.PasswordHasher(time_cost=_ROUNDS, memory_cost=_MEMORY, parallelism=1)
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        self._nobodys = self._argon.hash(secrets.token_hex())

    def hash(self, key: str) -> str:
        """Return a salted hash of a key."""
        return self._argon.hash(_bytes(key))

    def matches(self, key: str, hashed: str | None) -> bool:
        """Return whether a hash is that of ``key``; without a hash, return ``False`` after the same time."""
        try:
            with self._free:
                right = self._argon.verify(self._nobodys if hashed is None else hashed, _bytes(key))
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
        return right and hashed is not None


class VerifiedKeys:
    """Remembers verified keys, not as keys, but as digests with a secret of this process."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._digests: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        """Return whether a key of the user of this name was verified."""
        return name in self._digests

    def remember(self, name: str, key: str, hashed: str) -> None:
        """Remember that a user's key matches a hash."""
        with self._lock:
            self._digests[name] = self._digest(key, hashed)
            self._digests.move_to_end(name)
            while len(self._digests) > _REMEMBERED:
                self._digests.popitem(last=False)

    def matches(self, name: str, key: str, hashed: str) -> bool:
        """Return whether a user's key is known to match a hash."""
        with self._lock:
            digest = self._digests.get(name, b"")
        return hmac.compare_digest(digest, self._digest(key, hashed))

    def _digest(self, key: str, hashed: str) -> bytes:
        return hashlib.blake2b(hashed.encode() + b"\0" + _bytes(key), key=self._secret).digest()


def _bytes(key: str) -> bytes:
    """Return a key as bytes; a text longer than any key is cut, and then matches nothing."""
    return key[: _LONGEST + 1].encode("utf-8", "surrogatepass")

"""Locks of the directories that only one agent at a time may use: its run directory and its host's root.

An agent locks its run directory first. No lock is waited for, so two agents cannot block each other.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError, RefusedError

if TYPE_CHECKING:
    from pathlib import Path


class AgentLock:
    """The lock of a directory, in its file ``lock``, which names the process of the holder.

    ``use`` completes the error "another agent (process 17) uses …", ``key`` is the key of the configuration for
    the directory.
    """

    def __init__(self, directory: Path, *, use: str, key: str) -> None:
        self._directory = directory
        self._use = use
        self._key = key
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Create the directory and lock it until ``release`` or the end of this process.

        Raises ``RefusedError`` if another agent holds the lock, ``ConfigurationError`` if the directory is not
        writable.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._directory / "lock", flags, 0o644)
        except OSError as error:
            raise ConfigurationError(
                f"{self._key} {self._directory} cannot be written: {error.strerror}; make it a directory that the"
                f" agent can write to, or set another {self._key}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise RefusedError(
                f"another agent (process {holder}) uses {self._use}; stop that agent, or set another {self._key}"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def root_lock(root: Path) -> AgentLock:
    """Return the lock of a host: two agents with one root would change the same packages, services and records."""
    return AgentLock(root / "var" / "lib" / "zkdeployment", use=f"the root directory {root}", key="root")

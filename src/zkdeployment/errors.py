"""Every error this program raises on purpose.

Each carries the exit code a command ends with (0 done, 1 failed, 2 usage, 3 refused, 4 not
converged, 5 timed out, 7 ZooKeeper unreachable, 75 start me again) and says whether trying again helps.
A message says what was expected, what was found and what to do, in one line where it can.
"""

from __future__ import annotations

import re


class ZkdeploymentError(Exception):
    """The base of all expected errors."""

    exit_code = 1
    retry_helps = False


class ConfigurationError(ZkdeploymentError):
    """A configuration file, an option or an argument that cannot be used."""

    exit_code = 2


class RefusedError(ZkdeploymentError):
    """Asked for something that the state of the fleet forbids: all stop, lock held, another agent."""

    exit_code = 3


class DeniedError(RefusedError):
    """ZooKeeper does not allow what was asked for: its access rights are wrong, or ours."""

    retry_helps = True


class AllStopError(RefusedError):
    """The cluster version is null: nothing starts, and nothing is published without force."""


class DuplicateError(RefusedError):
    """Another live host has this host's id or name."""


class StalePublicationError(RefusedError):
    """ZooKeeper shows an earlier publication than was seen before: nothing is done without force."""


class LockHeldError(RefusedError):
    """Another process holds the lock that is needed."""

    retry_helps = True


class NotConvergedError(RefusedError):
    """Some host is not at the cluster version, so nothing new is published."""


class WaitTimeoutError(ZkdeploymentError):
    """What was waited for did not happen in time."""

    exit_code = 5
    retry_helps = True


class UnreachableError(ZkdeploymentError):
    """ZooKeeper cannot be reached, or the session was lost on the way."""

    exit_code = 7
    retry_helps = True


class RestartError(ZkdeploymentError):
    """The process cannot go on and wants its supervisor to start it again."""

    exit_code = 75
    retry_helps = True


class TreeError(ZkdeploymentError):
    """The tree, or a part of it, means nothing or contradicts itself."""


class LinkError(TreeError):
    """A symbolic link or a property link that leads nowhere or in circles."""


class SourceError(ZkdeploymentError):
    """The tree's repository cannot be read."""


class ConflictError(ZkdeploymentError):
    """Somebody else changed what was to be written; nothing was written. Read again."""

    retry_helps = True


class ShutdownError(ZkdeploymentError):
    """This process was asked to end; what it was doing was given up and nothing new was started."""

    exit_code = 0


class LockLostError(ZkdeploymentError):
    """The server says that a lock believed to be held is not (any more) ours."""

    retry_helps = True


class ProgramError(ZkdeploymentError):
    """Another program could not be started, failed, or ran over its time."""


class ScriptError(ProgramError):
    """A package's script failed; ``tail`` is the end of what it printed."""

    def __init__(self, message: str, tail: str = "") -> None:
        super().__init__(message)
        self.tail = tail


class HostFilesError(ZkdeploymentError):
    """A file of the host cannot be read or written."""


class CheckoutError(ZkdeploymentError):
    """Software cannot be checked out, or must not be from there."""


class PackageError(ZkdeploymentError):
    """The package manager cannot do, or did not do, what was asked.

    ``changed`` says whether the host's packages may differ from what they were before.
    """

    def __init__(self, message: str, *, changed: bool = False, retry_helps: bool = False) -> None:
        super().__init__(message)
        self.changed = changed
        self.retry_helps = retry_helps


def error_message(error: Exception) -> str:
    """Return what operators read of an error: its message, or for a defect of ours its kind and where to look."""
    if isinstance(error, ZkdeploymentError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}; see the log"


def without_passwords(text: str) -> str:
    """Return ``text`` with the passwords and tokens in its URLs hidden, for messages."""
    return _URL_PASSWORD.sub(r"\1:***@", _WEB_USER.sub(r"\1***@", text))


def without_secrets(text: str) -> str:
    """Return ``text`` with what looks like a secret hidden too: ``password=…``, ``--token …``, ``"secret": …``."""
    return _SECRET.sub(r"\1***", without_passwords(text))


def is_secret(name: str) -> bool:
    """Whether what is called this is not for everyone to read."""
    return _SECRET_NAME.search(name) is not None


#: Tokens stand where a user's name does.
_WEB_USER = re.compile(r"(https?://)[^/@\s]+@")
_URL_PASSWORD = re.compile(r"(://[^/@\s:]*):[^/@\s]*@")
_HIDDEN = r"(?:password|passwd|passphrase|token|secret|credential|api[_-]?key|\bpass\b|\bauthorization\b)"
_SECRET_NAME = re.compile(_HIDDEN, re.IGNORECASE)
# Each word is looked at once, from its beginning to its end: scripts may print words of any length.
_SECRET = re.compile(
    rf"""(
        (?<![\w-]) (?:
            (?=[\w-]*?{_HIDDEN}) [\w-]++["']?\s*[=:]  # NAME=, "NAME":
            | (?=\w*+-[\w-]*?{_HIDDEN}) [\w-]++\s  # --NAME
        )
        \s* (?:(?:bearer|basic)\s+)?
    )
    (?:"[^"]*" | '[^']*' | [^\s"',;&]+)""",
    re.IGNORECASE | re.VERBOSE,
)

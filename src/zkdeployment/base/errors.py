"""The errors that this program raises on purpose.

Each error class has the exit code of a command (0 done, 1 failed, 2 usage, 3 refused, 4 not converged, 5 timed
out, 7 ZooKeeper unreachable, 75 restart requested), and a flag for whether a retry can succeed. A message states
what was expected, what was found and what to do, if possible in one line. Errors that one module raises and
catches itself belong to that module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class ZkdeploymentError(Exception):
    """The base class of all expected errors."""

    exit_code = 1
    retry_helps = False


class ConfigurationError(ZkdeploymentError):
    """A configuration file, an option or an argument is invalid."""

    exit_code = 2


class RefusedError(ZkdeploymentError):
    """The state of the fleet forbids the request: the fleet is stopped, a lock is held, another agent runs."""

    exit_code = 3


class NotFoundError(RefusedError):
    """The host, lock, publication, rollout or node that a request names does not exist."""


class RetiredError(RefusedError):
    """The session, the tenant or the node that a request names has been retired."""


class LeaseHeldError(RefusedError):
    """Another bridge gets the updates of a monitoring system."""


class ForbiddenError(RefusedError):
    """The user of the service has no right to an act."""


class DeniedError(RefusedError):
    """ZooKeeper denies an operation: the rights of the node or the credentials of this process are wrong."""

    retry_helps = True


class AllStopError(RefusedError):
    """The cluster version is null: nothing starts, and only a forced publication is possible."""


class DuplicateError(RefusedError):
    """Another registered host has this host's id or name."""


class StalePublicationError(RefusedError):
    """ZooKeeper holds an older publication than this process has seen: nothing is done without force."""


class UntrustedError(RefusedError):
    """The content of ZooKeeper differs from the content that a publisher signed, or has no valid signature."""


class LockHeldError(RefusedError):
    """Another process holds the lock that is needed."""

    retry_helps = True


class NotConvergedError(RefusedError):
    """A host is not at the cluster version, so nothing new is published."""


class WaitTimeoutError(ZkdeploymentError):
    """An awaited event did not happen in time."""

    exit_code = 5
    retry_helps = True


class BusyError(ZkdeploymentError):
    """The service works on as many requests of a kind as it may at once."""

    retry_helps = True


class UnreachableError(ZkdeploymentError):
    """ZooKeeper cannot be reached, or the session was lost during an operation."""

    exit_code = 7
    retry_helps = True


class RestartError(ZkdeploymentError):
    """The process cannot continue and asks its supervisor for a restart."""

    exit_code = 75
    retry_helps = True


class TreeError(ZkdeploymentError):
    """The tree, or a part of it, is invalid or contradicts itself."""


class LinkError(TreeError):
    """A symbolic link or a property link is broken or circular."""


class IdentityProviderError(ZkdeploymentError):
    """The OpenID provider cannot be reached, or its answer is not acceptable."""


class SourceError(ZkdeploymentError):
    """The tree's repository cannot be read."""


class RevisionError(SourceError):
    """The files or the signature of a revision are not acceptable."""


class UnknownRevisionError(SourceError):
    """The repository has no branch or commit of this name."""


class UnknownBranchError(UnknownRevisionError):
    """The repository has no branch of the configured name, but those in ``existing``."""

    def __init__(self, message: str, existing: Sequence[str]) -> None:
        super().__init__(message)
        self.existing = existing


class ConflictError(ZkdeploymentError):
    """A node was changed concurrently, so that nothing was written; read again and retry."""

    retry_helps = True


class AwaitedServiceError(ZkdeploymentError):
    """A host that this host waits for did not deploy the service."""


class ShutdownError(ZkdeploymentError):
    """A signal asked this process to end: the current operation was abandoned and no other was started."""

    exit_code = 0


class LockLostError(ZkdeploymentError):
    """The server reports that this process does not hold a lock that it expected to hold."""

    retry_helps = True


class ProgramError(ZkdeploymentError):
    """Another program could not be started, failed, or exceeded its timeout."""


class AbandonedError(ProgramError):
    """The process ended a program, because another process may begin the same work."""


class ScriptError(ProgramError):
    """A package's script failed; ``tail`` is the end of its output in ``file``, without secrets.

    ``status`` is its exit status, 0 if the script did not run.
    """

    def __init__(self, message: str, tail: str = "", file: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.tail = tail
        self.file = file
        self.status = status


class RebootError(ZkdeploymentError):
    """A host cannot reboot, did not reboot, or asks for a reboot too often."""


class HostFilesError(ZkdeploymentError):
    """A file of the host cannot be read or written."""


class ServiceError(ZkdeploymentError):
    """The service cannot be reached, refuses this user, or answers unexpectedly."""

    retry_helps = True


class NagiosError(ZkdeploymentError):
    """Nagios cannot be reached, or its configuration is broken or cannot be written."""

    retry_helps = True


class UnusableCheckError(ZkdeploymentError):
    """The details of a deployment are incomplete, or Nagios cannot run the check that they describe."""


class CheckoutError(ZkdeploymentError):
    """Software cannot be checked out, or its source is not allowed."""


class PackageError(ZkdeploymentError):
    """The package manager refused or failed a request.

    ``changed`` is whether the packages of the host may have changed.
    """

    def __init__(self, message: str, *, changed: bool = False, retry_helps: bool = False) -> None:
        super().__init__(message)
        self.changed = changed
        self.retry_helps = retry_helps


def error_message(error: Exception) -> str:
    """Return the message of an error for operators; an unexpected error is shown with its type and a hint."""
    if isinstance(error, ZkdeploymentError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}; see the log"


def without_passwords(text: str) -> str:
    """Return ``text`` for messages, with the passwords and tokens in its URLs replaced by asterisks."""
    return _URL_PASSWORD.sub(r"\1:***@", _WEB_USER.sub(r"\1***@", text))


def without_secrets(text: str) -> str:
    """Return ``text`` without passwords and other apparent secrets, such as ``--token …`` and ``"secret": …``."""
    return _SECRET.sub(r"\1***", without_passwords(text))


def is_secret(name: str) -> bool:
    """Whether a value with this name is likely to be a secret."""
    return _SECRET_NAME.search(name) is not None


#: A token takes the place of the user name in a URL.
_WEB_USER = re.compile(r"(https?://)[^/@\s]+@")
_URL_PASSWORD = re.compile(r"(://[^/@\s:]*):[^/@\s]*@")
_HIDDEN = r"(?:password|passwd|passphrase|token|secret|credential|api[_-]?key|\bpass\b|\bauthorization\b)"
_SECRET_NAME = re.compile(_HIDDEN, re.IGNORECASE)
# Each word is matched only once, from its beginning: the output of scripts may contain words of any length.
_SECRET = re.compile(
    rf"""(
        (?<![\w-]) (?:
            (?=[\w-]*?{_HIDDEN}) [\w-]++["']?\s*[=:]  # NAME=, "NAME":
            | (?=\w*+-[\w-]*?{_HIDDEN}) [\w-]++ (?: \s | ["']\s*, )  # --NAME, "--NAME" in a list
        )
        \s* (?:(?:bearer|basic)\s+)?
    )
    (?:"[^"]*" | '[^']*' | [^\s"',;&]+)""",
    re.IGNORECASE | re.VERBOSE,
)

"""Pushing a commit to a branch, never with force, and what git's answer means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.adapters.git.command import DENIED, GitTimeoutError, failure_cause
from zkdeployment.model.act import sanitize

if TYPE_CHECKING:
    from zkdeployment.adapters.git.command import Git


class PushResult(Enum):
    """The result of a push, according to the server's answer, which may also be lost."""

    ACCEPTED = "accepted"
    OVERTAKEN = "overtaken"  # others changed the branch at the same time
    REFUSED = "refused"  # by the repository: a hook, a protected branch
    DENIED = "denied"  # no rights to push
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """The result of a push, and its reason in the words of git and of the repository's hooks."""

    result: PushResult
    reason: str = ""


#: Parts of messages of a repository that the user may read and not write.
_READ_ONLY = (
    *DENIED,
    "insufficient permission",
    "unable to create temporary object directory",
    "service not enabled",
    "not allowed",
    "read-only",
    "read only",
    "Read-only",
    "does not appear to be a git repository",
    "denied to",
    "not authorized",
)
_OVERTAKEN = re.compile(
    r"\[rejected\]|fetch first|non-fast-forward|cannot lock ref|failed to update ref|incorrect old value"
)
_REMOTE = "remote:"


def push(git: Git, commit: str, branch: str) -> PushAnswer:
    """Push a commit to a branch of ``origin``; a branch that others changed stays unchanged."""
    options = ("--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no")
    try:
        answer = git.run("push", *options, "--end-of-options", "origin", f"{commit}:refs/heads/{branch}")
    except GitTimeoutError as error:
        return PushAnswer(PushResult.UNKNOWN, str(error))
    if not answer.status:
        return PushAnswer(PushResult.ACCEPTED)
    status = next((line for line in answer.text.splitlines() if line.startswith("!")), "")
    messages = f"{status}\n{answer.messages}"
    if _OVERTAKEN.search(status):
        return PushAnswer(PushResult.OVERTAKEN)
    if any(part in messages for part in _READ_ONLY) and "hook declined" not in messages:
        return PushAnswer(PushResult.DENIED, failure_cause(answer.messages))
    if "[remote rejected]" in status:
        return PushAnswer(PushResult.REFUSED, _refusal(answer.messages) or sanitize(status.partition("] ")[2]))
    return PushAnswer(PushResult.UNKNOWN, failure_cause(answer.messages))


def _refusal(messages: str) -> str:
    """Return the messages of the repository's hooks, one printable line for each of their lines."""
    lines = (line.removeprefix(_REMOTE) for line in messages.splitlines() if line.startswith(_REMOTE))
    return "\n  ".join(filter(None, map(sanitize, lines)))

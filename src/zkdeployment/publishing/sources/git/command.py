"""Runs git without prompts, hooks or an inherited repository, and with a time limit."""

from __future__ import annotations

import os
import shlex
from dataclasses import field
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, BinaryIO

from zkdeployment.base.errors import SourceError, without_passwords
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Variables of a hook's environment that name *its* repository: ``git rev-parse --local-env-vars`` and a few more.
_OF_ANOTHER_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
}

_OPTIONS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    # Background garbage collection would outlive this process and work in a directory that gets replaced.
    "-c",
    "gc.autoDetach=false",
    "-c",
    "maintenance.autoDetach=false",
)

#: Parts of git's messages when the server denies access.
DENIED = (
    "Authentication failed",
    "Permission denied",
    "could not read Username",
    "could not read Password",
    "Host key verification failed",
    "returned error: 403",
    "dubious ownership",
)
#: Parts of git's messages when there is no usable repository.
NOT_THERE = ("does not appear to be a git repository", "not found", "does not exist", "not allowed", "blocked")

_TIMED_OUT = "Timeout: "


class GitError(SourceError):
    """Git failed; the message is the last one that git printed."""


class GitTimeoutError(GitError):
    """Git exceeded its time limit and was stopped."""


@dataclass(frozen=True)
class GitOutput:
    """The exit status of git, its standard output, and its standard error without passwords."""

    command: str
    status: int
    output: bytes
    messages: str

    def check(self) -> GitOutput:
        """Return this output, or raise ``GitError`` if git failed."""
        if self.status:
            raise GitError(f"git {self.command} failed: {failure_cause(self.messages)}")
        return self

    @property
    def text(self) -> str:
        """The output as text, stripped."""
        return self.output.decode("utf-8", "replace").strip()


@dataclass(frozen=True)
class Git:
    """A way to run git: the directory, the options and the time limit in seconds.

    ``settings`` are git configuration that the process list does not show. ``variables`` are added to the
    environment. ``alone`` ignores the configuration of the system and the user. ``inherit`` keeps the environment
    of a hook.
    """

    directory: Path = Path("/")
    options: tuple[str, ...] = ()
    timeout: float = 60
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    inherit: bool = False

    def run(self, *arguments: str, stdin: BinaryIO | None = None) -> GitOutput:
        """Return git's output for any exit status; raises ``GitError`` if git is missing or takes too long."""
        status, output, messages = self._execute(
            *arguments,
            istream=stdin,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            kill_after_timeout=self.timeout,
        )
        if status and messages.startswith(_TIMED_OUT):
            raise GitTimeoutError(f"git {arguments[0]} did not end within {self.timeout:g} s and was stopped")
        return GitOutput(arguments[0], status, output, without_passwords(messages))

    def start(self, *arguments: str) -> Any:
        """Return a running git with pipes, as GitPython's wrapper of it; raises ``GitError`` if git is missing."""
        return self._execute(*arguments, istream=PIPE, as_process=True)

    def _execute(self, *arguments: str, **options: Any) -> Any:
        try:
            from git.cmd import Git as Command  # noqa: PLC0415  it takes a while, and fails where git is missing
            from git.exc import GitCommandNotFound  # noqa: PLC0415
        except ImportError as error:
            raise GitError(f"git is not installed: {str(error).strip().splitlines()[0]}") from error
        try:
            return Command(self.directory).execute(
                [*self._prefix(), "git", *_OPTIONS, *self.options, *arguments],
                env=self._environment(),
                start_new_session=True,  # without a terminal no program can prompt for a password
                **options,
            )
        except GitCommandNotFound as error:
            raise GitError(f"cannot run git: {error.__cause__ or error}") from error

    def _prefix(self) -> list[str]:
        foreign = () if self.inherit else [name for name in _OF_ANOTHER_REPOSITORY if name in os.environ]
        return ["env", *(word for name in foreign for word in ("-u", name))] if foreign else []

    def _environment(self) -> dict[str, str]:
        environment = _ENVIRONMENT | dict(self.variables)
        if self.alone:
            environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        environment["GIT_CONFIG_COUNT"] = str(len(self.settings))
        for number, (key, value) in enumerate(self.settings.items()):
            environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return environment


def ssh_variables(key: Path | None) -> dict[str, str]:
    """Return the variables with which git uses this SSH key and no other; without a key, those of the user."""
    if key is None:
        return {}
    ssh = ["ssh", "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    return {"GIT_SSH_COMMAND": shlex.join(ssh)}


def failure_cause(messages: str) -> str:
    """Return the line in git's messages that most likely names the cause of a failure."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("fatal: ", "error: ", "ssh: ", "remote: "))]
    generic = "fatal: Could not read from remote repository."
    for line in causes:
        if line != generic:
            return line.partition(": ")[2] if line.startswith(("fatal", "error")) else line
    return next((line for line in lines if line != generic), "git printed no message")

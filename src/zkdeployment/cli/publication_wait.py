"""The option ``--wait`` of acts as commits, and the wait until a commit is published."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.base.cluster import Revision, short
from zkdeployment.base.errors import RefusedError, WaitTimeoutError
from zkdeployment.base.values import dataclass
from zkdeployment.cli.options import SECONDS
from zkdeployment.fleet.views.requests import Job, JobState, job_of, publication_obstacles

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits

R = TypeVar("R")

#: Seconds between two readings.
_INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Whether an act waits until it is done, and the limit in seconds (``None``: no limit)."""

    waits: bool
    timeout: float | None


def wait_options(effect: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds ``--wait`` and ``--timeout``; the verb receives ``waits``.

    ``effect`` completes the help of ``--wait``: wait until …
    """

    def check(context: click.Context, _option: click.Parameter, timeout: float | None) -> float | None:
        if timeout is not None and not context.params["wait"]:
            raise click.UsageError("expected --wait with --timeout")
        return timeout

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @click.option("--wait", is_flag=True, is_eager=True, help=f"Wait until {effect}.")
        @click.option(
            "--timeout",
            metavar="S",
            type=SECONDS,
            callback=check,
            help="End --wait after S seconds with exit code 5, and name what it waited for.",
        )
        @functools.wraps(function)
        def wrapped(*args: object, wait: bool, timeout: float | None, **options: object) -> R:
            return function(*args, waits=WaitOptions(wait, timeout), **options)

        return wrapped

    return decorate


class PublicationWait:
    """One wait for the publication of a commit, and for effects that the caller reads between pauses.

    ``advice`` ends the message of a timeout: the verb that shows the progress.
    """

    def __init__(
        self, operator: OperatorAdapters, commits: TreeCommits, timeout: float | None, *, advice: str
    ) -> None:
        self._operator = operator
        self._commits = commits
        self._timeout = timeout
        self._advice = advice
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._contained: dict[Revision, bool] = {}

    def until_published(self, commit: str) -> int | None:
        """Return the sequence of the publication of a commit; raises ``RefusedError`` if the syncer refuses it."""
        while True:
            job = self._job(commit)
            if job.state is JobState.PROCESSED:
                return job.sequence
            if job.state is JobState.FAILED:
                problems = "\n  ".join(job.problems)
                tip = "" if job.refused in {None, commit} else f"{short(job.refused)}, which contains "
                raise RefusedError(f"the syncer refused {tip}{short(commit)}:\n  {problems}")
            obstacles = list(publication_obstacles(self._operator.fleet.snapshot(), commit))
            self.pause(f"the publication of {short(commit)}{''.join(f'; {line}' for line in obstacles)}")

    def pause(self, awaited: str) -> None:
        """Sleep until the next reading; raises ``WaitTimeoutError`` after the end of the wait."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise WaitTimeoutError(
                f"timed out after {self._timeout:g} s, waiting for {awaited}; {self._advice} shows the progress"
            )
        time.sleep(_INTERVAL)

    def _job(self, commit: str) -> Job:
        fleet = self._operator.fleet
        return job_of(commit, fleet.history(), fleet.refusals(), lambda revision: self._contains(revision, commit))

    def _contains(self, revision: Revision, commit: str) -> bool:
        """Whether a published revision contains the commit; each revision is looked up once."""
        if revision not in self._contained:
            self._contained[revision] = self._commits.contains(revision, commit)
        return self._contained[revision]

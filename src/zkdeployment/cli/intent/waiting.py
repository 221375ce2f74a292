"""The option ``--wait`` of acts on intents: until the commit is published and all affected hosts are done."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.cli.intent.reading import read_reports, require_record
from zkdeployment.cli.shared.seconds import SECONDS
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import subject_text
from zkdeployment.errors import RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.fleet.branch.jobs import JobState, job_of
from zkdeployment.fleet.requests import publication_obstacles
from zkdeployment.intents.progress import instance_progress
from zkdeployment.intents.resources import instance_resources
from zkdeployment.model.cluster import ClusterState, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.fleet.branch.jobs import Job
    from zkdeployment.model.cluster import Revision
    from zkdeployment.ports.commits import TreeCommits
    from zkdeployment.ports.operator import OperatorAdapters

R = TypeVar("R")

#: Seconds between two readings, and how many readings in a row have to find the fleet stopped.
_INTERVAL = 0.5
_STOPPED_READINGS = 4


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Whether an act waits until it is done, and for how many seconds (``None``: without an end)."""

    waits: bool
    timeout: float | None


def wait_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--wait`` and ``--timeout``; the verb receives ``waits``."""

    @click.option(
        "--wait", is_flag=True, help="Wait until the commit is published and all affected hosts are done."
    )
    @click.option(
        "--timeout",
        metavar="S",
        type=SECONDS,
        help="End --wait after S seconds with exit code 5, and name what it waited for.",
    )
    @functools.wraps(function)
    def wrapped(*args: object, wait: bool, timeout: float | None, **options: object) -> R:
        if timeout is not None and not wait:
            raise click.UsageError("expected --wait with --timeout")
        return function(*args, waits=WaitOptions(wait, timeout), **options)

    return wrapped


def report(
    commit: str,
    subject: IntentSubject,
    operator: OperatorAdapters,
    commits: TreeCommits,
    waits: WaitOptions,
    *,
    is_active: bool | None,
) -> None:
    """Print the commit of an act; then wait for its effects, or print what delays its publication.

    ``is_active`` is whether the act deploys or undeploys services; ``None`` if it concerns no host.
    """
    echo(commit)
    if not waits.waits:
        for obstacle in publication_obstacles(operator.fleet.snapshot(), commit):
            echo(f"not published yet: {obstacle}", err=True)
        return
    wait = _Wait(operator, commits, subject, waits.timeout)
    sequence = wait.until_published(commit)
    echo(f"published as {sequence}", err=True)
    if is_active is not None:
        done = wait.until_done(is_active=is_active)
        echo(f"done: {done} deployments", err=True)


class _Wait:
    """One wait for the effects of an act."""

    def __init__(
        self, operator: OperatorAdapters, commits: TreeCommits, subject: IntentSubject, timeout: float | None
    ) -> None:
        self._operator = operator
        self._commits = commits
        self._subject = subject
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._contained: dict[Revision, bool] = {}

    def until_published(self, commit: str) -> int | None:
        """Return the sequence of the publication of a commit."""
        while True:
            job = self._job(commit)
            if job.state is JobState.PROCESSED:
                return job.sequence
            if job.state is JobState.FAILED:
                problems = "\n  ".join(job.problems)
                raise RefusedError(f"the syncer refused {short(commit)}:\n  {problems}")
            obstacles = list(publication_obstacles(self._operator.fleet.snapshot(), commit))
            self._pause(f"the publication of {short(commit)}{''.join(f'; {line}' for line in obstacles)}")

    def until_done(self, *, is_active: bool) -> int:
        """Return the number of deployments when all hosts have deployed or undeployed the newest instance."""
        stopped = 0
        while True:
            record = require_record(self._operator, self._subject)
            if record.state.is_active is not is_active:
                raise RefusedError(
                    f"{subject_text(self._subject)} is {record.state.value} now: another act ended the wait"
                )
            rows = instance_resources(record.instances[-1], read_reports(self._operator, record.instances[-1]))
            progress = instance_progress(rows, is_active=is_active)
            if progress.failed:
                raise ZkdeploymentError(f"{progress.failures}; 'zkdeployment status' shows the errors")
            if not progress.waiting:
                return progress.done
            fleet = self._operator.fleet.snapshot()
            is_stopped = fleet.cluster is not None and fleet.cluster.state is ClusterState.STOPPED
            stopped = stopped + 1 if is_stopped else 0
            if stopped >= _STOPPED_READINGS:  # the hosts that failed have reported that by now
                reasons = "; ".join(map(str, fleet.stops))
                raise RefusedError(f"the fleet is stopped ({reasons}); not done yet: {progress.awaited}")
            self._pause(progress.awaited)

    def _job(self, commit: str) -> Job:
        fleet = self._operator.fleet
        return job_of(commit, fleet.history(), fleet.refusals(), lambda revision: self._contains(revision, commit))

    def _contains(self, revision: Revision, commit: str) -> bool:
        """Whether a published revision contains the commit; each revision is looked up once."""
        if revision not in self._contained:
            self._contained[revision] = self._commits.contains(revision, commit)
        return self._contained[revision]

    def _pause(self, awaited: str) -> None:
        """Sleep until the next reading; raises ``WaitTimeoutError`` after the end of the wait."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise WaitTimeoutError(
                f"timed out after {self._timeout:g} s, waiting for {awaited}; 'zkdeployment intent status"
                f" {subject_text(self._subject)}' shows the progress"
            )
        time.sleep(_INTERVAL)

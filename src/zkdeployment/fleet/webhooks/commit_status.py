"""Commit statuses: the state of the fleet as a status of its commit, sent to the forge by the elected service.

GitHub, GitLab and Gitea show these statuses beside each commit.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from zkdeployment.base.cluster import ClusterState, is_commit, short
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.fleet.views.status import FleetStatus, HostState
from zkdeployment.fleet.webhooks.sender import retry_delay
from zkdeployment.publishing.rules.convergence import describe_unserved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.feed.fleet_assembly import FleetReading
    from zkdeployment.zookeeper.contender_lock import ContenderLock


class Forge(Enum):
    """The kinds of forges, by the name in the configuration."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"


@dataclass(frozen=True, slots=True)
class ForgeRepository:
    """The API of the tree's repository in a forge: ``https://api.github.com/repos/OWNER/NAME``, for example."""

    forge: Forge
    url: str

    def __str__(self) -> str:
        return f"{self.forge.value} {self.url}"

    @property
    def origin(self) -> str:
        """The scheme, host and port of the URL."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


class CommitState(Enum):
    """The state of a commit in the fleet."""

    PUBLISHED = "published"
    ROLLING_OUT = "rolling out"
    CONVERGED = "converged"
    FAILED = "failed"
    REFUSED = "refused"
    REPLACED = "replaced"


#: The states that are not sent after a state in the same publication: hosts may join and leave a fleet many times,
#: but forges keep every status, and GitHub accepts 1000 for a commit.
_WITHOUT_NEWS = {
    CommitState.PUBLISHED: {CommitState.PUBLISHED},
    CommitState.ROLLING_OUT: {CommitState.PUBLISHED},
    CommitState.CONVERGED: {CommitState.PUBLISHED, CommitState.ROLLING_OUT, CommitState.CONVERGED},
}


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """The status of a commit; ``sequence`` is that of its publication, 0 without one.

    ``rank`` grows with the news of one state. In a rollout it is the percentage of hosts that have the commit, in
    tens, and 101 if it is deployed, even if targets lack hosts; a failure of hosts ranks above a stop.
    """

    commit: str
    state: CommitState
    description: str
    sequence: int = 0
    rank: int = 0

    @property
    def is_final(self) -> bool:
        """Whether the status changes only by a further act or push."""
        return self.state not in {CommitState.PUBLISHED, CommitState.ROLLING_OUT}

    def is_news_after(self, known: CommitStatus | None) -> bool:
        """Whether the forge needs this status after the ``known`` one of the same commit."""
        if known is None or known.sequence != self.sequence:
            return True
        if self.state is known.state and self.state in {CommitState.ROLLING_OUT, CommitState.FAILED}:
            return self.rank > known.rank
        return self != known and self.state not in _WITHOUT_NEWS.get(known.state, ())


def commit_statuses(reading: FleetReading) -> tuple[CommitStatus, ...]:
    """Return the status of the wanted commit, and that of a tip that the syncer refused.

    Revisions that are not commits, such as those of Subversion, have no status.
    """
    found = []
    status, refusal = reading.status, reading.fleet.refusal
    if isinstance(status.wanted, str) and is_commit(status.wanted):
        state, description, rank = _state(status, reading.fleet.since)
        found.append(CommitStatus(status.wanted, state, description, reading.present_sequence, rank))
    if refusal is not None and isinstance(refusal.revision, str) and refusal.revision != status.wanted:
        reason = refusal.problems[0] if refusal.problems else "see the log of the syncer"
        found.append(CommitStatus(refusal.revision, CommitState.REFUSED, f"refused: {reason}"))
    return tuple(found)


def changed_statuses(
    present: Sequence[CommitStatus], known: Mapping[str, CommitStatus]
) -> tuple[CommitStatus, ...]:
    """Return the statuses that the forge needs: ``present`` ones with news, and the ends of replaced commits.

    ``known`` are the last statuses by commit. The end of a commit is needed if its known status is not final.
    """
    commits = {status.commit for status in present}
    replaced = [
        replace(status, state=CommitState.REPLACED, description=f"replaced by {short(wanted.commit)}")
        for wanted in present
        if wanted.state is not CommitState.REFUSED
        for status in known.values()
        if status.commit not in commits and not status.is_final
    ]
    return (*replaced, *(status for status in present if status.is_news_after(known.get(status.commit))))


def _state(status: FleetStatus, since: int) -> tuple[CommitState, str, int]:
    """Return the state of the wanted commit, its description and its rank.

    ``since`` is the sequence since which the publication of the commit concerns hosts.
    """
    expected = [host for host in status.hosts if host.expected]
    failed = [host for host in expected if host.state is HostState.FAILED]
    done, total = sum(host.state is HostState.CONVERGED for host in expected), len(expected)
    count = f"{done} of {counted(total, 'host')}"
    state = None if status.cluster is None else status.cluster.state
    if failed:
        others = "" if len(failed) == 1 else f" and {len(failed) - 1} more"
        return CommitState.FAILED, f"failed on {failed[0].name}{others}: {failed[0].error}", 2
    if status.missed:
        return CommitState.FAILED, f"failed: the rollout ended with {count}", 1
    if state is ClusterState.STOPPED:
        return CommitState.FAILED, f"stopped with {count}", 0
    for stop in status.group_stops:  # hosts without the steps of a stopped group have the revision
        if stop.sequence >= since:
            return CommitState.FAILED, f"failed: {stop}", 1
    if status.converged:
        return CommitState.CONVERGED, f"converged: {counted(total, 'host')}", 0
    if status.deployed:
        return CommitState.ROLLING_OUT, "; ".join(describe_unserved(status.unserved)), 101
    if not done:
        return CommitState.PUBLISHED, f"published for {counted(total, 'host')}", 0
    share = 100 * done // total // 10 * 10
    return CommitState.ROLLING_OUT, f"rolling out {share} %", share


#: The states of the forges, which differ in their words.
_STATES = {
    Forge.GITHUB: {
        CommitState.PUBLISHED: "pending",
        CommitState.ROLLING_OUT: "pending",
        CommitState.CONVERGED: "success",
        CommitState.FAILED: "failure",
        CommitState.REFUSED: "error",
        CommitState.REPLACED: "error",
    },
    Forge.GITLAB: {
        CommitState.PUBLISHED: "pending",
        CommitState.ROLLING_OUT: "running",
        CommitState.CONVERGED: "success",
        CommitState.FAILED: "failed",
        CommitState.REFUSED: "failed",
        CommitState.REPLACED: "canceled",
    },
    Forge.GITEA: {
        CommitState.PUBLISHED: "pending",
        CommitState.ROLLING_OUT: "pending",
        CommitState.CONVERGED: "success",
        CommitState.FAILED: "failure",
        CommitState.REFUSED: "error",
        CommitState.REPLACED: "error",
    },
}

#: The most characters of a description; GitHub refuses longer ones.
_LONGEST = {Forge.GITHUB: 140, Forge.GITLAB: 255, Forge.GITEA: 255}


def status_request(
    repository: ForgeRepository, status: CommitStatus, *, token: str, site: str, fleet: str
) -> tuple[str, bytes, Mapping[str, str]]:
    """Return the URL, the body and the headers of the request that sets a status.

    ``site`` is the address of the service, whose page of the publication the status links to. A commit has a
    status of each fleet, beside those of other programs; ``fleet`` is the name of the fleet.
    """
    forge = repository.forge
    description = status.description.replace("\n", " ")
    most = _LONGEST[forge]
    body: dict[str, Any] = {
        "state": _STATES[forge][status.state],
        "description": description if len(description) <= most else f"{description[: most - 1]}…",
        "target_url": f"{site}/history/{status.sequence}" if status.sequence else f"{site}/",
        "name" if forge is Forge.GITLAB else "context": f"zkdeployment/{fleet}",
    }
    headers = {"Content-Type": "application/json", "User-Agent": "zkdeployment"}
    match forge:
        case Forge.GITHUB:
            headers |= {
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {token}",
                "X-GitHub-Api-Version": "2022-11-28",
            }
        case Forge.GITLAB:
            headers["PRIVATE-TOKEN"] = token
        case Forge.GITEA:
            headers["Authorization"] = f"token {token}"
    return f"{repository.url}/statuses/{status.commit}", json.dumps(body).encode(), headers


def is_set_already(repository: ForgeRepository, code: int, answer: bytes) -> bool:
    """Whether a forge refuses a request because the commit has the state already: GitLab refuses repetitions."""
    return repository.forge is Forge.GITLAB and code == 400 and b"Cannot transition status" in answer


def describe_commit(status: CommitStatus) -> str:
    """Return a status for the log."""
    return f"{short(status.commit)} {status.description}"


#: Seconds between two checks of the election.
_INTERVAL = 5.0

#: The most commits whose statuses wait for a forge that does not answer.
_MOST_WAITING = 20

#: Seconds for a request, the most bytes of an answer, and the redirects of a repository that was renamed.
_TIMEOUT = 10.0
_MOST_BYTES = 1 << 20
_MOST_REDIRECTS = 3

#: Answers after which the same request would fail again, such as for an unknown commit.
_REFUSALS = frozenset({400, 404, 409, 410, 413, 415, 422})

#: The answer of a forge that fails for one commit, and still works for others.
_INTERNAL_ERROR = 500


class _Problem(NamedTuple):
    """Why a later attempt is needed: ``pause`` is the number of seconds in which the forge wants no request.

    ``is_commit`` is whether only the status of this commit failed, and not the forge.
    """

    reason: str
    pause: float = 0.0
    is_commit: bool = False


@dataclass(slots=True)
class _Attempts:
    """The failed attempts in a row, and the monotonic time of the next attempt."""

    failures: int = 0
    due: float = 0.0

    @property
    def left(self) -> float:
        """The seconds until the next attempt."""
        return self.due - time.monotonic()

    def fail(self, pause: float) -> None:
        """Delay the next attempt, at least for ``pause`` seconds."""
        self.failures += 1
        self.due = time.monotonic() + max(retry_delay(self.failures), pause)


class CommitStatusSender(FeedThread):
    """Sends the status of each commit in ``feed`` to ``repository`` when it changes.

    ``request`` returns the URL, the body and the headers that set a status. ``lock`` elects the sending service; a
    newly elected one sends the present statuses again, because it does not know the last ones. While the forge
    does not answer, the newest status of each commit waits. If the forge fails for one commit, only the status of
    that commit waits. ``ca`` is a file of certificates to trust.
    """

    NAME = "commit-statuses"

    def __init__(
        self,
        repository: ForgeRepository,
        request: Callable[[CommitStatus], tuple[str, bytes, Mapping[str, str]]],
        *,
        feed: ZooKeeperFeed,
        lock: ContenderLock,
        ca: Path | None = None,
    ) -> None:
        super().__init__(feed, lock)
        self._repository, self._request = repository, request
        self._http = HttpClient(ca)
        self._waiting: dict[str, CommitStatus] = {}
        self._known: dict[str, CommitStatus] = {}
        self._forge = _Attempts()
        self._commits: dict[str, _Attempts] = {}

    def _begin(self) -> None:
        self._known.clear()

    def _work(self) -> float:
        """Send the statuses that changed, and return the seconds until the next attempt."""
        self._add()
        for commit in [*self._waiting]:
            # A changed status does not shorten the pause: the forge may be overloaded.
            if self._forge.left <= 0 and self._commits.get(commit, self._forge).left <= 0:
                self._try(commit)
        dues = [max(self._forge.left, self._commits.get(each, self._forge).left) for each in self._waiting]
        return min([_INTERVAL, *(max(0.0, due) for due in dues)])

    def _add(self) -> None:
        """Let the statuses wait that changed since they were added last."""
        snapshot = self._feed.snapshot()
        for status in changed_statuses(commit_statuses(snapshot.reading), self._known) if snapshot.zxid else ():
            self._known[status.commit] = self._waiting[status.commit] = status
        for statuses in (self._known, self._waiting):
            for commit in [*statuses][:-_MOST_WAITING]:
                del statuses[commit]
        self._commits = {commit: each for commit, each in self._commits.items() if commit in self._waiting}

    def _try(self, commit: str) -> None:
        """Send the waiting status of a commit."""
        problem = self._send(self._waiting[commit])
        if problem is None:
            self._forge = _Attempts()
            del self._waiting[commit]
            return
        attempts = self._commits.setdefault(commit, _Attempts()) if problem.is_commit else self._forge
        attempts.fail(problem.pause)
        if attempts.failures == 1:
            about = {"commit": short(commit)} if problem.is_commit else {}
            forge = self._repository.origin
            get_logger().warning("commit-status-failed", forge=forge, reason=problem.reason, **about)

    def _send(self, status: CommitStatus) -> _Problem | None:
        """Send one status; return the problem if a later attempt may succeed, ``None`` if none is needed."""
        url, body, headers = self._request(status)
        log = get_logger().bind(forge=self._repository.origin, status=describe_commit(status))
        try:
            answer = self._http.request(
                "POST",
                url,
                timeout=_TIMEOUT,
                most=_MOST_BYTES,
                headers=headers,
                body=body,
                redirects=_MOST_REDIRECTS,
            )
        except HttpError as error:
            return _Problem(f"the forge cannot be reached: {error}")
        if not answer.problem or is_set_already(self._repository, answer.status, answer.content):
            log.info("commit-status-set")
            return None
        if answer.status not in _REFUSALS:
            pause = answer.retry_after(time.time())
            return _Problem(answer.problem, pause, is_commit=answer.status == _INTERNAL_ERROR and not pause)
        log.warning("commit-status-refused", reason=answer.problem)
        return None

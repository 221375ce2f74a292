"""Sends commit statuses to the forge while this service is elected."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.cluster import short
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.fleet.webhooks.commit_status import (
    CommitStatus,
    ForgeRepository,
    changed_statuses,
    commit_statuses,
    describe_commit,
    is_set_already,
)
from zkdeployment.fleet.webhooks.outbox import retry_delay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.zookeeper.contender_lock import ContenderLock

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

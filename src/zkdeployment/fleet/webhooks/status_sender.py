"""Sends commit statuses to the forge while this service is elected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import urllib3

from zkdeployment.base.log import get_logger
from zkdeployment.fleet.feed.feed_thread import FeedThread
from zkdeployment.fleet.webhooks.commit_status import (
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
    from zkdeployment.fleet.webhooks.commit_status import CommitStatus, ForgeRepository
    from zkdeployment.zookeeper.contender_lock import ContenderLock

#: Seconds between two checks of the election.
_INTERVAL = 5.0

#: The most commits whose statuses wait for a forge that does not answer.
_MOST_WAITING = 20

#: The bytes that are read of an answer.
_MOST_READ = 65536

_TIMEOUT = urllib3.Timeout(connect=3.0, read=10.0)

#: Answers after which the same request would fail again, such as for an unknown commit.
_REFUSALS = frozenset({400, 404, 409, 410, 413, 415, 422})


class CommitStatusSender(FeedThread):
    """Sends the status of each commit in ``feed`` to ``repository`` when it changes.

    ``request`` returns the URL, the body and the headers that set a status. ``lock`` elects the sending service; a
    newly elected one sends the present statuses again, because it does not know the last ones. While the forge
    does not answer, the newest status of each commit waits. ``ca`` is a file of certificates to trust.
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
        self._http = urllib3.PoolManager(timeout=_TIMEOUT, retries=False, ca_certs=None if ca is None else str(ca))
        self._waiting: dict[str, CommitStatus] = {}
        self._known: dict[str, CommitStatus] = {}
        self._failures, self._due = 0, 0.0

    def _begin(self) -> None:
        self._known.clear()

    def _work(self) -> float:
        """Send the statuses that changed, and return the seconds until the next attempt."""
        self._add()
        left = self._due - time.monotonic()
        return min(left, _INTERVAL) if left > 0 else self._send_waiting()

    def _add(self) -> None:
        """Let the statuses wait that changed since they were added last."""
        snapshot = self._feed.snapshot()
        for status in changed_statuses(commit_statuses(snapshot.reading), self._known) if snapshot.zxid else ():
            self._known[status.commit] = self._waiting[status.commit] = status
        for statuses in (self._known, self._waiting):
            for commit in [*statuses][:-_MOST_WAITING]:
                del statuses[commit]

    def _send_waiting(self) -> float:
        """Send the waiting statuses, and return the seconds until the next attempt."""
        for commit, status in [*self._waiting.items()]:
            problem = self._send(status)
            if problem is not None:
                self._failures += 1
                if self._failures == 1:
                    get_logger().warning("commit-status-failed", forge=self._repository.origin, reason=problem)
                # A changed status does not shorten the pause: the forge may be overloaded.
                self._due = time.monotonic() + retry_delay(self._failures)
                return min(retry_delay(self._failures), _INTERVAL)
            self._failures = 0
            del self._waiting[commit]
        return _INTERVAL

    def _send(self, status: CommitStatus) -> str | None:
        """Send one status; return the reason why a later attempt may succeed, ``None`` if none is needed."""
        url, body, headers = self._request(status)
        log = get_logger().bind(forge=self._repository.origin, status=describe_commit(status))
        try:
            answer = self._http.request(
                "POST", url, body=body, headers=headers, redirect=False, preload_content=False
            )
            text = answer.read(_MOST_READ)
            answer.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return f"the forge cannot be reached: {type(error).__name__}"
        if 200 <= answer.status < 300 or is_set_already(self._repository, answer.status, text):
            log.info("commit-status-set")
            return None
        reason = f"expected a status between 200 and 299, found {answer.status}"
        if answer.status not in _REFUSALS:
            return reason
        log.warning("commit-status-refused", reason=reason)
        return None

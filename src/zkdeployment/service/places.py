"""Places for requests to slow servers, which otherwise could occupy the threads of all other requests.

All requests share the threads of the service. Requests that may wait for a git server, an OpenID provider or a
syncer have a limited number of places; without a free place they fail at once.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.fleet.ports import ClusterControl
    from zkdeployment.publishing.acts.commits import Author, CommitOrder, CommitOutcome, TreeCommits
    from zkdeployment.publishing.records import GuardOverrides
    from zkdeployment.service.openid import IdentityProvider
    from zkdeployment.service.users.external_logins import ExternalUser, OpenIdAttempt


class Places:
    """Places for one kind of request.

    ``work`` names the work that occupies a place. At most ``at_once`` requests have places at the same time, and
    ``queue`` more wait up to ``patience`` seconds.
    """

    def __init__(self, work: str, at_once: int, *, queue: int = 0, patience: float = 0.0) -> None:
        self._work, self._patience = work, patience
        self._admitted = threading.BoundedSemaphore(at_once + queue)
        self._free = threading.BoundedSemaphore(at_once)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a place; raises ``BusyError`` if none becomes free in time."""
        if not self._admitted.acquire(blocking=False):
            raise self._busy()
        try:
            if not self._free.acquire(timeout=self._patience):
                raise self._busy()
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._admitted.release()

    def _busy(self) -> BusyError:
        return BusyError(f"the service is busy with other {self._work}; try again")


@dataclass(frozen=True, slots=True)
class LimitedCommits:
    """The branch of the tree, with places for acts and for questions about commits (a ``TreeCommits``)."""

    commits: TreeCommits
    acts: Places = field(default_factory=lambda: Places("acts that commit", 4, queue=4, patience=5.0))
    questions: Places = field(default_factory=lambda: Places("questions about commits", 4, queue=4, patience=1.0))

    @property
    def approvals(self) -> Any:
        return self.commits.approvals

    def author(self, user: str) -> Author:
        return self.commits.author(user)

    def commit(self, order: CommitOrder, *, dry_run: bool = False) -> CommitOutcome:
        with self.acts.taken():
            return self.commits.commit(order, dry_run=dry_run)

    def at_tip(self) -> tuple[Revision, Sequence[SourceFile]]:
        with self.questions.taken():
            return self.commits.at_tip()

    def revision(self, name: str) -> str:
        with self.questions.taken():
            return self.commits.revision(name)

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        with self.questions.taken():
            return self.commits.files(revision)

    def contains(self, revision: Revision, commit: str) -> bool:
        with self.questions.taken():
            return self.commits.contains(revision, commit)

    def trailer(self, revision: Revision, key: str) -> str | None:
        with self.questions.taken():
            return self.commits.trailer(revision, key)


@dataclass(frozen=True, slots=True)
class LimitedProvider:
    """An OpenID provider, with places for the people who log in there (an ``IdentityProvider``)."""

    provider: IdentityProvider
    places: Places = field(
        default_factory=lambda: Places("logins at the OpenID provider", 4, queue=8, patience=2.0)
    )

    def login_url(self, attempt: OpenIdAttempt, callback: str) -> str:
        with self.places.taken():
            return self.provider.login_url(attempt, callback)

    def find_user(self, code: str, attempt: OpenIdAttempt, callback: str) -> ExternalUser | str:
        with self.places.taken():
            return self.provider.find_user(code, attempt, callback)


@dataclass(frozen=True, slots=True)
class LimitedCluster:
    """The cluster version, with places for requests that wait for the syncer (a ``ClusterControl``)."""

    cluster: ClusterControl
    places: Places = field(default_factory=lambda: Places("requests for a publication", 8))

    def stop(self, act: Act) -> None:
        self.cluster.stop(act)

    def hold(self, act: Act) -> None:
        self.cluster.hold(act)

    def resume(self, act: Act) -> Revision:
        return self.cluster.resume(act)

    def resume_group(self, group: str, act: Act) -> None:
        self.cluster.resume_group(group, act)

    def resume_latest(self, act: Act, *, timeout: float, overrides: GuardOverrides | None = None) -> Revision:
        with self.places.taken():
            return self.cluster.resume_latest(act, timeout=timeout, overrides=overrides)

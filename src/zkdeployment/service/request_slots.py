"""Slots for requests to slow servers, which otherwise could occupy the threads of all other requests.

All requests share the threads of the service. Requests that may wait for a git server, an OpenID provider or a
syncer have a limited number of slots; without a free slot they fail at once.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zkdeployment.base.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.service.openid import OpenIdProvider

T = TypeVar("T")


class RequestSlots:
    """Slots for one kind of request.

    ``work`` names the work that occupies a slot. At most ``at_once`` requests have slots at the same time, and
    ``queue`` more wait up to ``patience`` seconds.
    """

    def __init__(self, work: str, at_once: int, *, queue: int = 0, patience: float = 0.0) -> None:
        self._work, self._patience = work, patience
        self._admitted = threading.BoundedSemaphore(at_once + queue)
        self._free = threading.BoundedSemaphore(at_once)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a slot; raises ``BusyError`` if none becomes free in time."""
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


def limited(adapter: T, **slots: RequestSlots) -> T:
    """Return an adapter whose methods of these names occupy a slot while they run."""
    return cast("T", _Limited(adapter, slots))


class _Limited:
    """An adapter some of whose methods occupy slots; everything else is that of the adapter."""

    def __init__(self, adapter: object, slots: Mapping[str, RequestSlots]) -> None:
        self._adapter, self._places = adapter, slots

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._adapter, name)
        return found if name not in self._places else self._limited_call(found, self._places[name])

    def _limited_call(self, method: Callable[..., Any], slots: RequestSlots) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with slots.taken():
                return method(*arguments, **options)

        return call


#: The methods of ``TreeCommits`` that ask the repository.
_QUESTIONS = ("at_tip", "revision", "files", "contains", "summary", "trailer")


def limited_commits(commits: TreeCommits) -> TreeCommits:
    """Return the branch of the tree, with slots for acts and for questions about commits."""
    acts = RequestSlots("acts that commit", 4, queue=4, patience=5.0)
    questions = RequestSlots("questions about commits", 4, queue=4, patience=1.0)
    return limited(commits, commit=acts, **dict.fromkeys(_QUESTIONS, questions))


def limited_provider(provider: OpenIdProvider) -> OpenIdProvider:
    """Return an OpenID provider, with slots for the people who log in there."""
    slots = RequestSlots("logins at the OpenID provider", 4, queue=8, patience=2.0)
    return limited(provider, login_url=slots, find_user=slots)


def limited_cluster(cluster: ZooKeeperClusterControl) -> ZooKeeperClusterControl:
    """Return the cluster version, with slots for requests that wait for the syncer."""
    return limited(cluster, resume_latest=RequestSlots("requests for a publication", 8))

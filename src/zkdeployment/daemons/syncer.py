"""The syncer: from the tip of the tree's branch to ZooKeeper, or a reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tenacity

from zkdeployment.errors import AllStopError, ConflictError, NotConvergedError, RefusedError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import Cluster
from zkdeployment.planning.publishing import Draft, Verdict, draft, is_stopped, judge, refusal
from zkdeployment.planning.review import Review, review

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.ports import PublicationStore, TreeSource

#: How often somebody else may get in between reading and writing.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Report:
    """What was published, or in a preview would be; without a draft there was nothing to do."""

    revision: Revision
    draft: Draft | None = None

    @property
    def sentence(self) -> str:
        """The report for people."""
        if self.draft is None:
            return f"nothing to do: {self.revision} is published"
        return f"published {self.revision} ({self.draft.sentence})"


class Syncer:
    """Publishes the tip of ``source`` to ``store``."""

    def __init__(self, source: TreeSource, store: PublicationStore) -> None:
        self._source = source
        self._store = store
        self._reviewed: tuple[Revision, Review] | None = None

    def sync(self, *, force: bool = False) -> Report:
        """Publish the tip if it may be and is not yet; ``force`` publishes it in any case.

        Raises ``AllStopError``, ``NotConvergedError``, ``RefusedError`` when somebody else holds the lock,
        ``SourceError``, ``TreeError`` with all errors of the tree, ``ConflictError`` when others write all the
        time, ``UnreachableError``. Then nothing was published, or the beginning of a large publication that the
        next call finishes.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            retry=tenacity.retry_if_exception_type(ConflictError),
            reraise=True,
        )
        return retrying(self._sync, force=force)

    def preview(self, *, force: bool = False) -> Report:
        """Return what ``sync`` would publish, or raise what it would raise; takes no lock and writes nothing."""
        cluster, tip, verdict = self._judge(force=force)
        if verdict is Verdict.UP_TO_DATE:
            return Report(tip)
        return Report(tip, self._draft(cluster, tip))

    def _sync(self, *, force: bool) -> Report:
        cluster, tip, verdict = self._judge(force=force)
        if verdict is Verdict.UP_TO_DATE:
            return Report(tip)
        lock = self._store.lock()
        if not lock.try_acquire():
            raise RefusedError(
                f"{tip} is not published: /hosts-lock is held by {lock.holder() or 'another syncer'}"
            )
        try:
            if self._store.cluster() != cluster:
                raise ConflictError("the cluster version changed while the tree was read")
            drafted = self._draft(cluster, tip)
            self._store.publish(drafted.publication)
        finally:
            lock.release()
        get_logger().info("published", revision=tip, forced=force, changes=drafted.sentence)
        for problem in drafted.warnings:
            get_logger().warning("tree-warning", revision=tip, problem=str(problem))
        return Report(tip, drafted)

    def _judge(self, *, force: bool) -> tuple[Cluster | None, Revision, Verdict]:
        """Read the world and decide; while all is stopped not even the repository is asked."""
        cluster = self._store.cluster()
        if is_stopped(cluster, force=force):
            raise AllStopError(
                "ALL STOP: the cluster version is null, so nothing is published; see zkdeployment status"
            )
        tip = self._source.fetch()
        hosts = self._store.hosts()
        verdict = judge(
            cluster,
            hosts,
            tip=tip,
            published=self._store.published_revision(),
            force=force,
            firm=cluster == Cluster(False) and self._store.is_held_by_operator(),
        )
        if cluster is not None and verdict is Verdict.NOT_CONVERGED:
            raise NotConvergedError(refusal(cluster, hosts, tip))
        return cluster, tip, verdict

    def _draft(self, cluster: Cluster | None, tip: Revision) -> Draft:
        live = self._store.live_tree()
        return draft(self._review(tip), live, self._store.hosts(), revision=tip, expected=cluster)

    def _review(self, tip: Revision) -> Review:
        """Review a revision's tree, once: a refused one comes back every time until it is mended."""
        if self._reviewed is None or self._reviewed[0] != tip:
            self._reviewed = tip, review(self._source.files(tip))
        return self._reviewed[1]

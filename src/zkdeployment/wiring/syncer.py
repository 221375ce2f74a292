"""Builds the syncer, for one run or as a daemon."""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.adapters.published_file import PublishedFile
from zkdeployment.adapters.sources import open_source
from zkdeployment.adapters.systemd import SystemdNotifier
from zkdeployment.adapters.unfinished import unfinished
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
from zkdeployment.daemons import failpoints
from zkdeployment.daemons.control import Control
from zkdeployment.daemons.syncer.follower import Follower
from zkdeployment.daemons.syncer.syncer import Syncer
from zkdeployment.model.cluster import is_commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.config.settings import Settings
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.ports.publication import TreeSource

from zkdeployment.wiring.process import arm_failpoints, build_probe

_SYNCER_SESSION = 10.0


@contextlib.contextmanager
def build_syncer(settings: Settings, *, mirror: Path | None = None) -> Iterator[Syncer]:
    """Connect and give what syncs once; for a preview, ``mirror`` stands in for the settings' tree directory.

    Raises ``UnreachableError``.
    """
    with Session(settings.servers, session_timeout=_SYNCER_SESSION, create_chroot=mirror is None) as session:
        store = _publications(settings, session)
        yield Syncer(_source(settings, mirror), store, SystemClock(), _memory(settings))


@contextlib.contextmanager
def build_follower(settings: Settings) -> Iterator[tuple[Follower, Control]]:
    """Give the syncer that follows the branch, and what wakes and ends it; nothing is contacted before it runs."""
    session = Session(settings.servers, session_timeout=_SYNCER_SESSION, create_chroot=True)
    try:
        store = _publications(settings, session)
        control = Control(SystemClock())
        syncer = Syncer(_source(settings), store, SystemClock(), _memory(settings))
        sync = settings.require_sync()
        follower = Follower(
            syncer,
            store,
            control,
            connect=session.open,
            notifier=SystemdNotifier(),
            probe=build_probe(sync.metrics, session),
            unfinished=partial(unfinished, sync.tree_directory),
        )
        yield follower, control
    finally:
        session.close()


def _memory(settings: Settings) -> PublishedFile:
    """Return where the syncer remembers what it published, beside its mirror."""
    mirror = settings.require_sync().tree_directory
    return PublishedFile(mirror.with_name(f".{mirror.name}.published"))


def read_revision(settings: Settings, name: Revision | None = None) -> tuple[Revision, Sequence[SourceFile]]:
    """Return a revision and its tree files, read through a mirror for this once; raises ``SourceError``.

    ``name`` is a branch, or a whole commit id (Subversion: a number) of the configured branch; without one it is
    that branch's tip. Signatures are not asked for: nothing is published.
    """
    sync = settings.require_sync()
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as place:
        branch = name if isinstance(name, str) and not is_commit(name) else None
        source = open_source(sync.url, Path(place) / "mirror", branch=branch or sync.branch)
        tip = source.fetch()
        revision = tip if name is None or branch is not None else name
        return revision, source.files(revision)


def _publications(settings: Settings, session: Session) -> ZooKeeperPublications:
    arm_failpoints(settings)
    return ZooKeeperPublications(session, history=settings.require_sync().history, reach=failpoints.reach)


def _source(settings: Settings, mirror: Path | None = None) -> TreeSource:
    sync = settings.require_sync()
    return open_source(
        sync.url, mirror or sync.tree_directory, branch=sync.branch, allowed_signers=sync.allowed_signers
    )

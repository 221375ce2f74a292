"""Builds the syncer, for one run, for a preview or as a daemon, and the other objects that its verbs need."""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zkdeployment.agent.package_check import PackageGuard
from zkdeployment.agent.packages.host_repositories import own_repositories, syncer_repositories
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.files import check_owner, sole_process, unfinished
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.process import arm_failpoints, build_probe
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.signing import signing_file
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.keys.publish_key import publication_signer
from zkdeployment.publishing.keys.publisher_keys import PublisherKeysFile
from zkdeployment.publishing.section import section
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.sources.opening import open_source
from zkdeployment.publishing.store.requests import give_notice
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.publishing.watermark import published_file
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
    from zkdeployment.config.sections import SyncSettings
    from zkdeployment.config.settings import Settings
    from zkdeployment.publishing.ports import PublicationSigner, TreeSource
    from zkdeployment.publishing.records import SyncerReport
    from zkdeployment.zookeeper.servers import Servers

_SYNCER_SESSION = 10.0  # seconds

#  Seconds that a post-receive hook waits for ZooKeeper.
NOTICE_TIMEOUT = 10.0


@contextlib.contextmanager
def exclusive_mirror(settings: Settings) -> Iterator[bool]:
    """Hold the mirror of the tree for this process; yields ``False`` if another process holds it.

    Raises ``RefusedError`` if the mirror belongs to another user, ``ConfigurationError`` if its lock cannot be
    created.
    """
    mirror = settings.require_sync().tree_directory
    check_owner(mirror)
    with sole_process(mirror.with_name(f".{mirror.name}.lock")) as acquired:
        yield acquired


@contextlib.contextmanager
def build_syncer(settings: Settings) -> Iterator[Syncer]:
    """Connect and yield the syncer for one run; the run is recorded as unfinished unless it ends without error.

    Raises ``UnreachableError``.
    """
    with (
        unfinished(settings.require_sync().tree_directory),
        Session(settings.servers, session_timeout=_SYNCER_SESSION, create_chroot=True) as session,
    ):
        signer = publication_signer(settings.sync)
        repositories = syncer_repositories(settings.require_sync())
        yield _syncer(settings, _publications(settings, session, signer), _source(settings), signer, repositories)


@contextlib.contextmanager
def build_preview(settings: Settings) -> Iterator[Syncer]:
    """Connect and yield a syncer for previews, with a temporary mirror: a daemon may hold the configured one.

    Raises ``UnreachableError``.
    """
    with (
        tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch,
        Session(settings.servers, session_timeout=_SYNCER_SESSION) as session,
    ):
        signer = publication_signer(settings.sync)
        source = _source(settings, Path(scratch) / "tree")
        configured = settings.require_sync().repositories
        repositories = own_repositories(configured) if configured else None
        yield _syncer(settings, _publications(settings, session, None), source, signer, repositories)


@contextlib.contextmanager
def build_follower(settings: Settings) -> Iterator[tuple[Follower, Control]]:
    """Yield the syncer that follows the branch, and its control; ZooKeeper is contacted only when it runs."""
    session = Session(settings.servers, session_timeout=_SYNCER_SESSION, create_chroot=True)
    try:
        signer = publication_signer(settings.sync)
        store = _publications(settings, session, signer)
        control, notifier = Control(SystemClock()), SystemdNotifier()
        sync = settings.require_sync()

        def tick() -> None:
            control.check()
            notifier.watchdog()  # this thread is alive, and the check of packages has a time limit

        repositories = syncer_repositories(sync, tick=tick)
        follower = Follower(
            _syncer(settings, store, _source(settings), signer, repositories),
            store,
            control,
            connect=session.open,
            notifier=notifier,
            probe=build_probe(sync.metrics, session),
            unfinished=partial(unfinished, sync.tree_directory),
            record_failure=FailureRecord(session, "syncer").write,
        )
        yield follower, control
    finally:
        session.close()


def notify_syncers(servers: Servers, by: str) -> SyncerReport | None:
    """Wake the syncers that follow the branch; return the last report of one, ``None`` without one.

    Raises ``UnreachableError``.
    """
    with Session(servers, call_timeout=NOTICE_TIMEOUT) as session:
        return give_notice(session, by)


def _syncer(
    settings: Settings,
    store: ZooKeeperPublications,
    source: TreeSource,
    signer: PublicationSigner | None,
    repositories: DnfHostRepositories | None,
) -> Syncer:
    """Return the syncer, which records its publications and signatures beside its configured mirror."""
    sync = settings.require_sync()
    mirror = sync.tree_directory
    memory = published_file(mirror.with_name(f".{mirror.name}.published"))
    return Syncer(
        source,
        store,
        SystemClock(),
        memory,
        signer,
        packages=None if repositories is None else PackageGuard(store, repositories),
        keeper=section().keeper(store, mirror.with_name(f".{mirror.name}.accepted"), _approvals(sync, source)),
        signing=signing_file(mirror.with_name(f".{mirror.name}.signed")),
        publishers=None if settings.publishers is None else PublisherKeysFile(settings.publishers),
        governed=sync.governed_paths,
    )


def _approvals(sync: SyncSettings, source: TreeSource) -> Any:
    """Return the verifier of approvals in the mirror; ``None`` if approvals need no signature."""
    if sync.approvers is None:
        return None
    if not isinstance(source, GitSource):
        raise ConfigurationError(
            "approvers: expected a git repository, found another one; remove the key approvers"
        )
    return section().mirror_approvals(sync, source)


def _publications(settings: Settings, session: Session, signer: PublicationSigner | None) -> ZooKeeperPublications:
    arm_failpoints(settings)
    history = settings.require_sync().history
    return ZooKeeperPublications(session, history=history, reach=failpoints.reach, signer=signer)


def _source(settings: Settings, mirror: Path | None = None) -> TreeSource:
    sync = settings.require_sync()
    return open_source(
        sync.url, mirror or sync.tree_directory, branch=sync.branch, allowed_signers=sync.allowed_signers
    )

"""``zkdeployment sync``: the syncer for one run, for a preview or as a daemon."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.agent.packages.host_repositories import (
    DnfHostRepositories,
    own_repositories,
    syncer_repositories,
)
from zkdeployment.base import log
from zkdeployment.base.daemon import failpoints
from zkdeployment.base.daemon.control import Control, interrupted_by_signals, obey_signals
from zkdeployment.base.errors import ConfigurationError, RefusedError, UnknownBranchError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.files import check_owner, sole_process, unfinished
from zkdeployment.base.machine.program import collect_rarely
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.cli.operator_options import new_act, override_options, reason_option
from zkdeployment.cli.process import arm_failpoints, build_probe
from zkdeployment.cli.terminal import echo
from zkdeployment.config.settings import Settings, load
from zkdeployment.fleet.daemon_failures import FailureRecord
from zkdeployment.fleet.package_check import PackageGuard
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.keeper import section_keeper
from zkdeployment.publishing.daemon.signing import signing_file
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.keys import PublisherKeysFile, publication_signer
from zkdeployment.publishing.records import ForcedBy, GuardOverrides, SyncerReport, SyncOptions
from zkdeployment.publishing.section import ApprovalVerifier, section
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.sources.opening import open_source
from zkdeployment.publishing.store.requests import give_notice
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.publishing.watermark import published_file
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.publishing.acts.containment import Containment
    from zkdeployment.publishing.ports import PublicationSigner, TreeSource
    from zkdeployment.zookeeper.servers import Servers


_SYNCER_SESSION = 10.0  # seconds

#: Seconds that a post-receive hook waits for ZooKeeper.
NOTICE_TIMEOUT = 10.0


#: Seconds of each run of git for a dry run.
_DRY_RUN_TIMEOUT = 30.0


@contextlib.contextmanager
def exclusive_mirror(settings: Settings) -> Iterator[bool]:
    """Hold the mirror of the tree for this process; yields ``False`` if another process holds it.

    Raises ``RefusedError`` if the mirror belongs to another user, ``ConfigurationError`` if its lock cannot be
    created.
    """
    mirror = settings.require(SyncSettings).tree_directory
    check_owner(mirror)
    with sole_process(mirror.with_name(f".{mirror.name}.lock")) as acquired:
        yield acquired


@contextlib.contextmanager
def build_syncer(settings: Settings) -> Iterator[Syncer]:
    """Connect and yield the syncer for one run; the run is recorded as unfinished unless it ends without error.

    Raises ``UnreachableError``.
    """
    with (
        unfinished(settings.require(SyncSettings).tree_directory),
        Session(settings.servers, session_timeout=_SYNCER_SESSION, create_chroot=True) as session,
    ):
        signer = publication_signer(settings.of(SyncSettings))
        repositories = syncer_repositories(settings.require(SyncSettings))
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
        signer = publication_signer(settings.of(SyncSettings))
        source = _source(settings, Path(scratch) / "tree")
        configured = settings.require(SyncSettings).repositories
        repositories = own_repositories(configured) if configured else None
        yield _syncer(settings, _publications(settings, session, None), source, signer, repositories)


@contextlib.contextmanager
def build_dry_runs(
    settings: Settings, session: Session, repositories: DnfHostRepositories | None
) -> Iterator[Callable[[str], tuple[str, ...]] | None]:
    """Yield the function that returns the reasons for which the syncer would refuse a commit, on any thread.

    The function keeps a temporary mirror of all branches, so that only new commits are fetched. The function
    raises what ``Syncer.refusals`` raises. ``None`` for a repository of another system than git. The branch of the
    fleet need not exist yet: the first promotion creates it.
    """
    sync, lock = settings.require(SyncSettings), threading.Lock()
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
        found = _source(settings, Path(scratch) / "tree", every_branch=True)
        if not isinstance(found, GitSource):
            yield None
            return
        configured = replace(found, timeout=_DRY_RUN_TIMEOUT, gap=1)  # a promoter waits for the answer

        def judge(source: GitSource, commit: str) -> tuple[str, ...]:
            store = ZooKeeperPublications(session, history=sync.history)
            syncer = Syncer(
                source,
                store,
                SystemClock(),
                signed=sync.publish_key is not None,
                check_packages=None if repositories is None else PackageGuard(store, repositories).check,
                keeper=section_keeper(store, None, _approvals(sync, source)),
                governed=sync.governed_paths,
                containment=_containment(sync, source),
            )
            return syncer.refusals(commit)

        def refusals(commit: str) -> tuple[str, ...]:
            with lock:
                try:
                    return judge(configured, commit)
                except UnknownBranchError as error:
                    # The commit is read by its id, and with each branch the source fetches all others.
                    return judge(replace(configured, branch=error.existing[0]), commit)

        yield refusals


@contextlib.contextmanager
def build_follower(settings: Settings) -> Iterator[tuple[Follower, Control]]:
    """Yield the syncer that follows the branch, and its control; ZooKeeper is contacted only when it runs."""
    session = Session(settings.servers, session_timeout=_SYNCER_SESSION, create_chroot=True)
    try:
        signer = publication_signer(settings.of(SyncSettings))
        store = _publications(settings, session, signer)
        control, notifier = Control(SystemClock()), SystemdNotifier()
        sync = settings.require(SyncSettings)

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
    sync = settings.require(SyncSettings)
    mirror = sync.tree_directory
    memory = published_file(mirror.with_name(f".{mirror.name}.published"))
    return Syncer(
        source,
        store,
        SystemClock(),
        memory,
        signer,
        check_packages=None if repositories is None else PackageGuard(store, repositories).check,
        keeper=section_keeper(store, mirror.with_name(f".{mirror.name}.accepted"), _approvals(sync, source)),
        signing=signing_file(mirror.with_name(f".{mirror.name}.signed")),
        publishers=None if settings.publishers is None else PublisherKeysFile(settings.publishers),
        governed=sync.governed_paths,
        containment=_containment(sync, source),
    )


def _containment(sync: SyncSettings, source: TreeSource) -> Containment | None:
    """Return the rule of ``contained-in``; ``None`` without that key."""
    if sync.contained_in is None:
        return None
    if not isinstance(source, GitSource):
        raise ConfigurationError(
            "contained-in: expected a git repository, found another one; remove the key contained-in"
        )
    from zkdeployment.publishing.acts.containment import Containment  # noqa: PLC0415  most syncers do not need it

    return Containment(source, sync.contained_in)


def _approvals(sync: SyncSettings, source: TreeSource) -> ApprovalVerifier | None:
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
    history = settings.require(SyncSettings).history
    return ZooKeeperPublications(session, history=history, reach=failpoints.reach, signer=signer)


def _source(settings: Settings, mirror: Path | None = None, *, every_branch: bool = False) -> TreeSource:
    sync = settings.require(SyncSettings)
    return open_source(
        sync.url,
        mirror or sync.tree_directory,
        branch=sync.branch,
        allowed_signers=sync.allowed_signers,
        every_branch=every_branch or sync.contained_in is not None,
    )


#: The value that click passes for ``--interval`` without a number.
_CONFIGURED = "as configured"


@click.command(name="sync")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-u", "--url", metavar="URL", help="The tree's repository, instead of the configuration's.")
@click.option(
    "-t",
    "--tree-directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The directory of the repository's mirror, instead of the configuration's.",
)
@click.option("-b", "--branch", metavar="BRANCH", help="The branch, instead of the configuration's.")
@click.option("-n", "--dry-run", is_flag=True, help="Print what would be published and change nothing.")
@click.option(
    "-f",
    "--force",
    is_flag=True,
    help="Publish even if all is stopped or hosts are behind; read the whole live tree and correct drift.",
)
@click.option(
    "--prune", is_flag=True, help="Delete top-level nodes that were in a .zk file once and are in none now."
)
@override_options
@click.option(
    "--interval",
    metavar="[SECONDS]",
    is_flag=False,
    flag_value=_CONFIGURED,
    help="Follow the branch: sync again after so many seconds (default: interval of the configuration).",
)
@click.option("--notify", is_flag=True, help="Only wake the running syncers, as after a push, and return at once.")
@reason_option(required=False)
@click.option("-v", "--verbose", is_flag=True, help="Log everything.")
def command(
    config: Path,
    *,
    url: str | None,
    tree_directory: Path | None,
    branch: str | None,
    dry_run: bool,
    force: bool,
    prune: bool,
    overrides: GuardOverrides,
    interval: str | None,
    notify: bool,
    reason: str,
    verbose: bool,
) -> None:
    """Publish the tip of the tree's branch to ZooKeeper, once or whenever the branch changes.

    Nothing is published while all is stopped (version null) or some host is not at the cluster version (exit code
    3), or if the tree has errors (1). A tip that does not descend from the published revision, or that would end
    more than 30 % of the deployments, is refused even with --force (3).

    With --interval the syncer follows the branch until SIGTERM. SIGHUP, --notify (for a git server's post-receive
    hook) and 'zkdeployment resume --latest' wake the syncer at once. A second process with the same mirror exits
    with 0, or with 3 if --force, --prune or --allow-… asked for more than the first process does.

    Usually only the nodes that differ from the last published text are read. Changes by hand elsewhere remain
    until --force reads the whole tree.

    \b
    Example:
      zkdeployment sync --dry-run /etc/zkdeployment/zkdeployment.cfg
      zkdeployment sync /etc/zkdeployment/zkdeployment.cfg --interval 60
      zkdeployment sync --notify /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    collect_rarely()
    given = {
        "url": url,
        "tree-directory": None if tree_directory is None else str(tree_directory.absolute()),
        "branch": branch,
        "interval": None if interval == _CONFIGURED else interval,
    }
    settings = load(config, host=False, sync={key: value for key, value in given.items() if value is not None})
    options = SyncOptions(force, prune, overrides, forced=_forced(reason, overrides, force=force))
    _check_combination(notify, interval, more=dry_run or options != SyncOptions())
    if notify:
        _notify(settings.servers)
    elif dry_run:
        _preview(settings, options)
    else:
        with exclusive_mirror(settings) as acquired:
            if not acquired:
                _give_way(settings, options)
            elif interval is None:
                with interrupted_by_signals(), build_syncer(settings) as syncer:
                    echo(syncer.sync(options).sentence)
            else:
                _follow(settings)


def _give_way(settings: Settings, options: SyncOptions) -> None:
    """Report that another process syncs; raises ``RefusedError`` for options that a cycle does not have."""
    directory = settings.require(SyncSettings).tree_directory
    message = f"another process syncs with the mirror {directory}: nothing was done"
    if options != SyncOptions():
        raise RefusedError(
            f"{message}; ask that process with 'zkdeployment resume --latest', or stop it before --prune"
        )
    echo(message, err=True)


def _check_combination(notify: bool, interval: str | None, *, more: bool) -> None:
    """Raise ``ConfigurationError`` for options that exclude each other."""
    if notify and (interval is not None or more):
        raise ConfigurationError("--notify only wakes running syncers; use it without other options")
    if interval is not None and more:
        raise ConfigurationError(
            "--interval follows the branch permanently; use --dry-run, --force, --prune and --allow-… without it"
        )


def _notify(servers: Servers) -> None:
    """Wake running syncers, and report whether one seems to be running."""
    report = notify_syncers(servers, new_act("sync --notify", "").by)
    if report is None:
        echo("no syncer follows the branch: what was pushed waits for the next sync", err=True)
    elif (silent := time.time() - report.time) > 2 * report.interval + NOTICE_TIMEOUT:
        echo(
            f"the last syncer ({report.by}) has been silent for {silent:.0f} s:"
            " what was pushed waits for the next",
            err=True,
        )
    else:
        echo(f"notified the syncer ({report.by})", err=True)


def _forced(reason: str, overrides: GuardOverrides, *, force: bool) -> ForcedBy | None:
    """Return the record of a forced publication; raises ``ConfigurationError`` for a reason without force."""
    if not force:
        if reason:
            raise ConfigurationError("--reason is recorded for a forced publication only; use it with --force")
        return None
    forcing = new_act("sync --force", reason)
    return ForcedBy(forcing.by, forcing.reason, str(overrides))


def _preview(settings: Settings, options: SyncOptions) -> None:
    with interrupted_by_signals(), build_preview(settings) as syncer:
        report = syncer.preview(options)
    if report.draft is None:
        echo(report.sentence, err=True)
        return
    for line in report.draft.describe():
        echo(line)
    for problem in report.draft.warnings:
        echo(str(problem), err=True)
    echo(f"would be {report.sentence}; nothing was changed", err=True)


def _follow(settings: Settings) -> None:
    with build_follower(settings) as (follower, control):
        obey_signals(control)
        follower.run(settings.require(SyncSettings).interval)

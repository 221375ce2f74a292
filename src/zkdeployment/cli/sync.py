"""``zkdeployment sync``."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment import log
from zkdeployment.adapters.process_lock import check_owner, sole_process
from zkdeployment.adapters.unfinished import unfinished
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.publication.notices import give_notice
from zkdeployment.cli.shared.operator_options import act, permit_options, reason_option
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.config.load import load
from zkdeployment.errors import ConfigurationError, RefusedError
from zkdeployment.model.history import ForcedBy
from zkdeployment.model.publication import GuardOverrides
from zkdeployment.wiring.syncer import build_follower, build_syncer

if TYPE_CHECKING:
    from zkdeployment.config.settings import Settings
    from zkdeployment.model.servers import Servers

#: How long somebody who pushes waits for ZooKeeper, in seconds.
_PATIENCE = 10.0

#: What click passes for ``--interval`` without a number.
_CONFIGURED = "as configured"


@click.command(name="sync")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-u", "--url", metavar="URL", help="The tree's repository, instead of the configuration's.")
@click.option(
    "-t",
    "--tree-directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where its mirror is kept, instead of the configuration's place.",
)
@click.option("-b", "--branch", metavar="BRANCH", help="The branch, instead of the configuration's.")
@click.option("-n", "--dry-run", is_flag=True, help="Print what would be published and change nothing.")
@click.option(
    "-f",
    "--force",
    is_flag=True,
    help="Publish also when all is stopped, or some host is behind; read the whole live tree and put it right.",
)
@click.option(
    "--prune", is_flag=True, help="Remove top-level nodes that once were in a .zk file, but are in none any more."
)
@permit_options
@click.option(
    "--interval",
    metavar="[SECONDS]",
    is_flag=False,
    flag_value=_CONFIGURED,
    help="Go on: look again after so many seconds (default: interval of the configuration).",
)
@click.option(
    "--notify", is_flag=True, help="Only tell the syncers that run to look now, as after a push; return at once."
)
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
    """Publish the tip of the tree's branch to ZooKeeper, once or again and again.

    Nothing is published while all is stopped (version null) or some host is not at the cluster version (exit code
    3), or if the tree has errors (1). Nor is, also with --force, a tip that does not descend from the published
    revision or would end more than 30 % of the deployments (3). With --interval it follows the branch until
    SIGTERM and looks at once at SIGHUP, after --notify (a git server's post-receive hook may call that), and for
    'zkdeployment resume --latest'. A second process with the same mirror ends with 0, and with 3 if it was to do
    more than the first: with --force, --prune or --allow-….

    Usually only the nodes that differ from the last published text are looked at. What was changed by hand
    elsewhere stays until --force reads everything.

    \b
    Example:
      zkdeployment sync --dry-run /etc/zkdeployment/zkdeployment.cfg
      zkdeployment sync /etc/zkdeployment/zkdeployment.cfg --interval 60
      zkdeployment sync --notify /etc/zkdeployment/zkdeployment.cfg
    """
    log.configure(verbose=verbose)
    given = {
        "url": url,
        "tree-directory": None if tree_directory is None else str(tree_directory.absolute()),
        "branch": branch,
        "interval": None if interval == _CONFIGURED else interval,
    }
    settings = load(config, host=False, sync={key: value for key, value in given.items() if value is not None})
    _check_alone(notify, interval, more=dry_run or force or prune or overrides != GuardOverrides())
    forced = _forced(reason, force=force)
    if notify:
        _notify(settings.servers)
        return
    if dry_run:
        _preview(settings, force=force, prune=prune, overrides=overrides)
        return
    directory = settings.require_sync().tree_directory
    check_owner(directory)
    with sole_process(directory.with_name(f".{directory.name}.lock")) as alone:
        if not alone:
            _give_way(directory, more=force or prune or overrides != GuardOverrides())
        elif interval is None:
            with unfinished(directory), build_syncer(settings) as syncer:
                echo(syncer.sync(force=force, prune=prune, overrides=overrides, forced=forced).sentence)
        else:
            _follow(settings)


def _give_way(directory: Path, *, more: bool) -> None:
    """Report that another process syncs; raises ``RefusedError`` if this one was to do more than that one does."""
    busy = f"another process syncs with the mirror {directory}: nothing was done"
    if more:
        raise RefusedError(
            f"{busy}; ask that process with 'zkdeployment resume --latest', or stop it before --prune"
        )
    echo(busy, err=True)


def _check_alone(notify: bool, interval: str | None, *, more: bool) -> None:
    """Raise ``ConfigurationError`` for options that make no sense together."""
    if notify and (interval is not None or more):
        raise ConfigurationError("--notify only tells others to look; use it without other options")
    if interval is not None and more:
        raise ConfigurationError(
            "--interval follows the branch for good; use --dry-run, --force, --prune and --allow-… without it"
        )


def _notify(connection: Servers) -> None:
    """Tell syncers to look, and the caller whether there seems to be one."""
    with Session(connection, call_timeout=_PATIENCE) as session:
        last = give_notice(session, act("sync --notify", "").by)
    if last is None:
        echo("no syncer follows the branch: what was pushed waits for the next sync", err=True)
    elif (silent := time.time() - last.time) > 2 * last.interval + _PATIENCE:
        echo(
            f"the last syncer ({last.by}) has been silent for {silent:.0f} s: what was pushed waits for the next",
            err=True,
        )
    else:
        echo(f"told the syncer ({last.by}) to look now", err=True)


def _forced(reason: str, *, force: bool) -> ForcedBy | None:
    """Return who forces a publication and why; a reason without force is a mistake."""
    if not force:
        if reason:
            raise ConfigurationError("--reason says why something is forced; use it with --force")
        return None
    doing = act("sync --force", reason)
    return ForcedBy(doing.by, doing.reason)


def _preview(settings: Settings, *, force: bool, prune: bool, overrides: GuardOverrides) -> None:
    """Use a mirror that is thrown away: the one in use belongs to whoever runs just now."""
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
        with build_syncer(settings, mirror=Path(scratch) / "tree") as syncer:
            report = syncer.preview(force=force, prune=prune, overrides=overrides)
        if report.draft is None:
            echo(report.sentence, err=True)
            return
        for line in report.draft.describe():
            echo(line)
        for problem in report.draft.warnings:
            echo(f"warning: {problem}", err=True)
        echo(f"would be {report.sentence}; nothing was changed", err=True)


def _follow(settings: Settings) -> None:
    interval = settings.require_sync().interval
    if interval is None:
        raise ConfigurationError(
            f"{settings.source}: interval not specified in [sync]; set it, or --interval SECONDS"
        )
    with build_follower(settings) as (follower, control):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: control.stop())
        signal.signal(signal.SIGHUP, lambda *_: control.wake())
        follower.run(interval)

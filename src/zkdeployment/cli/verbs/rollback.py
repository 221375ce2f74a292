"""``zkdeployment rollback`` and ``quarantine``: commits that restore an earlier tree, or forbid a version."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from zkdeployment.base.act import NO_REASON
from zkdeployment.base.cluster import short
from zkdeployment.base.errors import without_passwords
from zkdeployment.cli.act_verbs import refusing
from zkdeployment.cli.files import with_ordered_text
from zkdeployment.cli.operator_options import current_user, new_act, reason_option, recorded_name, strategy_option
from zkdeployment.cli.options import (
    SECONDS,
    configured_repository,
    configured_revision,
    emit,
    output_option,
    repository_option,
    zookeeper_options,
)
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.rollback import publish_now, roll_back, rollback_title
from zkdeployment.fleet.store.audit import ActAudit
from zkdeployment.fleet.views.forecast import predict
from zkdeployment.fleet.views.plan_text import short_lines
from zkdeployment.fleet.views.requests import publication_obstacles
from zkdeployment.publishing.acts.opening import open_commits, terminal_author
from zkdeployment.publishing.acts.quarantine import add_quarantine, new_record, remove_quarantine
from zkdeployment.publishing.acts.rollback import RollbackOrder, governing_strategy
from zkdeployment.publishing.rules.quarantines import QUARANTINE, Quarantine
from zkdeployment.publishing.rules.review import review
from zkdeployment.service.acts import RollBackFleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zkdeployment.publishing.acts.commits import CommitOutcome
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="rollback", cls=refusing(RollBackFleet))
@click.argument("revision", metavar="[REVISION]", required=False)
@reason_option(required=False)
@click.option("-n", "--dry-run", is_flag=True, help="Print the change and the undone commits; commit nothing.")
@click.option(
    "--now",
    is_flag=True,
    help="Request that the syncer publishes the commit at once, as resume --latest does, and wait for that.",
)
@click.option(
    "--quarantine", is_flag=True, help="Put each version that the undone commits introduced into quarantine."
)
@strategy_option
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=SECONDS,
    default=60.0,
    show_default=True,
    help="With --now: how long to wait for the syncer.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, which is asked only at a terminal.")
@zookeeper_options
def command(
    *,
    connection: Servers,
    revision: str | None,
    reason: str,
    dry_run: bool,
    now: bool,
    quarantine: bool,
    former_strategy: bool,
    timeout: float,
    yes: bool,
) -> None:
    """Commit the tree files of an earlier revision to the tree's branch.

    REVISION is a commit of the branch. Without it, the fleet returns to the last successful revision before the
    current one: its rollout did, or, without a strategy, every registered host reached it. After a push that the
    syncer refused, the current one counts, too, so that only the push is undone. Documents stay. The present
    strategy governs the rollback, too, unless --strategy former restores that of REVISION. The history goes
    forward: the rollback is a commit on top of the branch, and the commits that it undoes are listed. The command
    prints the id of the commit when the repository has accepted it.

    The syncer then publishes the commit by its rules, and the command prints what still stands in the way. With
    --now the commit is published in any state of the fleet, even if it ends many deployments. The exit code is 3
    when the rollback is refused, 5 when no syncer published in time.

    \b
    Example:
      zkdeployment rollback --reason 'web 1.3 loses sessions' --now
      zkdeployment rollback 4f2c9be --reason 'before the move' --dry-run
      zkdeployment rollback --reason 'web 1.3 loses sessions' --now --quarantine
    """
    settings = configured_repository(click.get_current_context().params["config"])
    with open_operator(connection) as operator, open_commits(settings) as commits:
        rollback = RollbackOrder(
            author=terminal_author(current_user()),
            reason=reason or NO_REASON,
            revision=revision,
            quarantine=quarantine,
            former_strategy=former_strategy,
            now=time.time(),
        )
        asks = not yes and not dry_run and sys.stdin is not None and sys.stdin.isatty()
        if dry_run or asks:
            rollback = _preview(rollback, commits, operator, asks=asks)
        if dry_run:
            return
        audit = ActAudit(operator.acts, recorded_name(), rollback.reason)
        outcome = roll_back(rollback, commits, operator.fleet, operator.rollouts, audit=audit)
        if not asks:
            _list_undone(outcome, commits)
        commit = str(outcome.commit)
        echo(commit)
        if now:
            act = new_act(rollback_title(outcome), rollback.reason)
            publish_now(commit, act, commits, operator.fleet, operator.cluster, timeout=timeout)
            echo(f"published {commit}", err=True)
            return
        for obstacle in publication_obstacles(operator.fleet.snapshot(), commit):
            echo(f"not published yet: {obstacle}", err=True)


def _preview(
    rollback: RollbackOrder, commits: TreeCommits, operator: OperatorAdapters, *, asks: bool
) -> RollbackOrder:
    """Show the changes of a rollback, and ask at a terminal; return the rollback to the shown revision."""
    preview = roll_back(rollback, commits, operator.fleet, operator.rollouts, dry_run=True)
    _list_undone(preview, commits)
    echo_lines(preview.diff.rstrip("\n"))
    if asks and preview.changed:
        _confirm(preview, operator)
    return replace(rollback, revision=preview.past)


def _list_undone(outcome: CommitOutcome, commits: TreeCommits) -> None:
    past = short(outcome.past or "")
    echo(governing_strategy(outcome, commits), err=True)
    if not outcome.changed:
        echo(f"nothing changes: the tip of the branch has the tree of {past}", err=True)
        return
    echo(f"back to {past}; this undoes:", err=True)
    for commit in outcome.undone:
        echo(f"  {short(commit.id)} {commit.subject} ({commit.author})", err=True)


def _confirm(outcome: CommitOutcome, operator: OperatorAdapters) -> None:
    """Show the steps of hosts, and ask; raises ``Abort`` unless the answer is yes."""
    basis = with_ordered_text(operator.prediction_basis(), click.get_current_context().params["config"])
    predicted = predict(review(outcome.files), basis, revision=None, title="the rollback")
    for line in (*predicted.warnings, *short_lines(predicted.forecast)):
        echo(line, err=True)
    click.confirm("Commit this rollback?", abort=True, err=True)


@click.group(name="quarantine", cls=VerbGroup)
def quarantine() -> None:
    """Forbid a version of a package in the whole fleet, allow it again, or list the forbidden versions.

    A quarantine is a document in the tree's branch. While it is there, lint, the hooks, plan and the syncer refuse
    a tree that wants the version, with who put it into quarantine, when and why.

    \b
    Example:
      zkdeployment quarantine add hello 1.3 --reason 'loses sessions'
      zkdeployment quarantine list
      zkdeployment quarantine remove hello 1.3 --reason 'it was the network'
    """


@quarantine.command(name="add")
@click.argument("name")
@click.argument("version")
@reason_option(required=True)
@click.option("-n", "--dry-run", is_flag=True, help="Print the change; commit nothing.")
@repository_option
def add(name: str, version: str, reason: str, dry_run: bool, config: Path | None) -> None:
    """Put a version into quarantine.

    NAME is a package, an application, a patch or the repository of checkouts. A VERSION without a release matches
    all its releases. The command prints the id of the commit when the repository has accepted it. The exit code is
    3 while the tip of the branch wants the version: change the tree first, or use rollback --quarantine.

    \b
    Example:
      zkdeployment quarantine add hello 1.3 --reason 'loses sessions'
      zkdeployment quarantine add hello 1.3-2 --reason 'built from the wrong branch' --dry-run
    """
    _commit(add_quarantine, name, version, reason, dry_run=dry_run, config=config)


@quarantine.command(name="remove")
@click.argument("name")
@click.argument("version")
@reason_option(required=True)
@click.option("-n", "--dry-run", is_flag=True, help="Print the change; commit nothing.")
@repository_option
def remove(name: str, version: str, reason: str, dry_run: bool, config: Path | None) -> None:
    """End the quarantine of a version, which a later change may then want.

    The command prints the id of the commit when the repository has accepted it. The exit code is 3 if there is no
    such quarantine.

    \b
    Example:
      zkdeployment quarantine remove hello 1.3 --reason 'it was the network'
    """
    _commit(remove_quarantine, name, version, reason, dry_run=dry_run, config=config)


@quarantine.command(name="list")
@output_option
@repository_option
def list_quarantines(output: str, config: Path | None) -> None:
    """List the quarantines at the tip of the tree's branch.

    \b
    Example:
      zkdeployment quarantine list
      zkdeployment quarantine list -o json
    """
    _, files = configured_revision(config)
    quarantines = read_documents(document_files(files)).of(QUARANTINE)
    found = [quarantine for _, quarantine in sorted(quarantines.items())]
    if output != "table":
        emit({"quarantines": [_to_json(quarantine) for quarantine in found]}, output, schema="quarantines")
        return
    rows = [tuple(map(styled, entry.values())) for entry in map(_to_json, found)]
    table = ResponsiveTable(("NAME", "VERSION", "SINCE", "BY", "REASON"), rows, whole=("NAME", "VERSION"))
    console_for(stderr=False).print(table)


def _commit(
    act: Callable[..., CommitOutcome], name: str, version: str, reason: str, *, dry_run: bool, config: Path | None
) -> None:
    settings = configured_repository(config)
    with open_commits(settings) as commits:
        author = terminal_author(current_user())
        outcome = act(commits, new_record(name, version, reason, author, time.time()), author, dry_run=dry_run)
    if not outcome.changed:
        echo("nothing changes: the tip of the branch has that quarantine already", err=True)
    if dry_run:
        echo_lines(outcome.diff.rstrip("\n"))
    else:
        echo(str(outcome.commit))


def _to_json(quarantine: Quarantine) -> dict[str, str]:
    return {
        "name": without_passwords(quarantine.name),
        "version": quarantine.version,
        "since": quarantine.time,
        "by": quarantine.by,
        "reason": quarantine.reason,
    }

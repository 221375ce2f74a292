"""``zkdeployment rollback``: restores the tree of an earlier revision by a commit."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from zkdeployment.base.act import NO_REASON
from zkdeployment.base.cluster import short
from zkdeployment.cli.act_verbs import refusing
from zkdeployment.cli.files import with_ordered_text
from zkdeployment.cli.operator_options import current_user, new_act, reason_option, strategy_option
from zkdeployment.cli.options import SECONDS, configured_repository, zookeeper_options
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.cli.verbs.plan import short_lines
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.rollback import publish_now, roll_back
from zkdeployment.fleet.views.forecast import predict
from zkdeployment.fleet.views.requests import publication_obstacles
from zkdeployment.publishing.acts.opening import open_commits, terminal_author
from zkdeployment.publishing.acts.rollback import RollbackOrder, governing_strategy
from zkdeployment.publishing.rules.review import review
from zkdeployment.service.acts import RollBackFleet

if TYPE_CHECKING:
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
    current one: its rollout did, or, without a strategy, every registered host reached it. Documents
    stay. The present strategy governs the rollback, too, unless --strategy former restores that of REVISION. The
    history goes forward: the rollback is a commit on top of the branch, and the commits that it undoes are
    listed. The command prints the id of the commit when the repository has accepted it.

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
        outcome = roll_back(rollback, commits, operator.fleet, operator.rollouts)
        if not asks:
            _list_undone(outcome, commits)
        commit, past = str(outcome.commit), short(outcome.past or "")
        echo(commit)
        if now:
            act = new_act(f"rollback to {past}", reason or NO_REASON)
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

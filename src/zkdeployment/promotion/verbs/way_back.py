"""``zkdeployment promote rollback`` and ``promote reset``: the ways back, with the operator's own git rights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base.cluster import short
from zkdeployment.cli.operator_options import current_user, new_act, reason_option, strategy_option
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.store.audit import ActAudit
from zkdeployment.promotion.acts import plan_reset, roll_back
from zkdeployment.promotion.acts import reset as reset_branch
from zkdeployment.promotion.opening import configured_promotion, open_main
from zkdeployment.promotion.store import read_history
from zkdeployment.publishing.acts.opening import terminal_author
from zkdeployment.publishing.acts.rollback import RollbackOrder, governing_strategy

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers

_MOST_LOST = 20


@click.command(name="rollback")
@click.argument("revision", metavar="[REVISION]", required=False)
@reason_option(required=True)
@click.option("-n", "--dry-run", is_flag=True, help="Print the change and the undone commits; commit nothing.")
@strategy_option
@click.option(
    "--signing-key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Sign the commit with this private key, which fleets with allowed-signers demand.",
)
@zookeeper_options
def rollback(
    *,
    connection: Servers,
    revision: str | None,
    reason: str,
    dry_run: bool,
    former_strategy: bool,
    signing_key: Path | None,
) -> None:
    """Commit the tree files of an earlier revision to the main branch, for the bad fleets first.

    REVISION is a commit of the main branch. Without it, that is the last revision before the newest promotion that
    reached all fleets. Documents stay. The present strategies of the fleets do, too, unless --strategy former
    restores those of REVISION. The commit is pushed with your own rights for the repository. The promoter then
    ends the promotion that is under way, and promotes the commit to all fleets with a bad revision at once,
    without bake times and windows, and then to the usual groups. The exit code is 3 when the rollback is refused.

    \b
    Example:
      zkdeployment promote rollback --reason 'web 1.3 loses sessions' --dry-run
      zkdeployment promote rollback --reason 'web 1.3 loses sessions'
    """
    settings = configured_promotion(click.get_current_context().params["config"])
    with open_operator(connection) as operator, open_main(settings, signing_key) as main:
        history = read_history(operator.session)
        author = terminal_author(current_user())
        order = RollbackOrder(author=author, reason=reason, revision=revision, former_strategy=former_strategy)
        outcome = roll_back(main, history, order, dry_run=dry_run)
        past = short(outcome.past or "")
        echo(governing_strategy(outcome, main.commits), err=True)
        if not outcome.changed:
            echo(f"nothing changes: the tip of the main branch has the tree of {past}", err=True)
        else:
            echo(f"back to {past}; this undoes:", err=True)
            for commit in outcome.undone:
                echo(f"  {short(commit.id)} {commit.subject} ({commit.author})", err=True)
        if dry_run:
            echo_lines(outcome.diff.rstrip("\n"))
            return
        act = new_act("promotion rollback", reason)
        ActAudit(operator.acts, act.by, reason).record(f"roll back promotions to {past}", outcome)
        echo(str(outcome.commit))


@click.command(name="reset")
@click.argument("fleet", metavar="FLEET")
@reason_option(required=True)
@click.option("--to", metavar="REVISION", help="The commit of the main branch that the fleet's branch gets.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the commits that the branch loses; change nothing.")
@zookeeper_options
def reset(*, connection: Servers, fleet: str, reason: str, to: str | None, dry_run: bool) -> None:
    """Set the branch of FLEET, which has diverged from the main branch, to a commit of the main branch.

    Without --to, that is the revision of the newest promotion, if it succeeded or is a rollback. The commits that
    only the fleet's branch has are listed, and lost. The branch is pushed with your own rights for the repository,
    and only if it has not changed in the meantime. The act is recorded. The exit code is 3 if the branch has not
    diverged, or if the repository refuses the push.

    \b
    Example:
      zkdeployment promote reset eu-1 --reason 'the rollback is in main' --dry-run
      zkdeployment promote reset eu-1 --reason 'the rollback is in main'
    """
    settings = configured_promotion(click.get_current_context().params["config"])
    with open_operator(connection) as operator, open_main(settings) as main:
        planned = plan_reset(main, fleet, read_history(operator.session), to)
        move = planned.move
        way = f"from {short(move.old)} to {short(move.new)}"
        echo(f"{move.branch} {way}; this loses:", err=True)
        for line in planned.lost[:_MOST_LOST]:
            echo(f"  {line}", err=True)
        if len(planned.lost) > _MOST_LOST:
            echo(f"  and {len(planned.lost) - _MOST_LOST} more", err=True)
        if dry_run:
            return
        # The record comes first: no reset is missing in it, also if this program ends in between.
        operator.acts.record(new_act(f"reset branch {move.branch} {way}", reason))
        reset_branch(main, planned)
        echo(f"reset {move.branch} to {move.new}")

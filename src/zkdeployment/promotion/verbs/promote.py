"""``zkdeployment promote``: the newest promotion, directives to the promoter, and the ways back."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zkdeployment.base.cluster import short
from zkdeployment.base.errors import RefusedError
from zkdeployment.cli.act_verbs import act_verb, completing, directive_verb
from zkdeployment.cli.operator_options import current_user, new_act, reason_option, strategy_option
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.rollout_display import show_rollout
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.store.audit import ActAudit
from zkdeployment.promotion.acts import configured_promotion, open_main, plan_reset, roll_back
from zkdeployment.promotion.acts import reset as reset_branch
from zkdeployment.promotion.store import (
    known_standing,
    read_commits,
    read_history,
    read_orders,
    read_promotion,
    read_standings,
)
from zkdeployment.promotion.user_acts import (
    AbortPromotion,
    FailFleets,
    FollowMain,
    PausePromotion,
    PinFleet,
    PromoteFleets,
    ReleaseFleet,
    ResumePromotion,
    RunFrom,
    UnpinFleet,
    WithholdFleet,
)
from zkdeployment.promotion.views.fleets import (
    FleetsStatus,
    coming_revision,
    fleets_status,
    waiting_for_reset,
    with_orders,
)
from zkdeployment.publishing.acts.opening import terminal_author
from zkdeployment.publishing.acts.rollback import RollbackOrder, governing_strategy
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import RolloutStatus, rollout_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.act import Act
    from zkdeployment.promotion.records import Choice, FleetStanding, Pin
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.servers import Servers


#: The exit code of a plan that would change something.
_CHANGES = 4


@click.command(name="show")
@click.option("--watch", is_flag=True, help="Show the promotion live until it is over, or until Ctrl-C.")
@output_option
@zookeeper_options
def show(connection: Servers, watch: bool, output: str) -> None:
    """Show the newest promotion: its groups in order, what each group does or waits for, and the failed fleets.

    The exit code is 0 if the promotion is over and all groups and fleets succeeded, 4 if it is under way or had
    failures, 3 if there is no promotion.

    \b
    Example:
      zkdeployment promote show
      zkdeployment promote show --watch
    """
    with open_operator(connection) as operator:
        seen: list[FleetsStatus] = []
        resets: list[str] = []

        def look() -> RolloutStatus:
            found, promoter = read_promotion(operator.session), read_leader(operator.session, MemberKind.FLEET)
            seen[:] = [fleets_status(found, promoter, time.time())]
            resets[:] = [waiting_for_reset(seen[0].fleets, found.state)]
            if found.state is None:
                raise RefusedError(_missing(seen[0]))
            return rollout_status(found.state, led=promoter is not None, now=time.time())

        def body(status: RolloutStatus) -> dict[str, Any]:
            body = status.to_json()
            del body["coordinator"], body["strategy"]
            facts = seen[0].to_json()
            return {**body, **{key: facts[key] for key in ("promoter", "main", "problem", "waiting", "choice")}}

        def remarks() -> tuple[str, ...]:
            return (*seen[0].remarks, *filter(None, resets))

        show_rollout(look, output, body, watch=watch, names={}, kind=MemberKind.FLEET, remarks=remarks)


def _missing(status: FleetsStatus) -> str:
    """Return why there is no promotion."""
    return f"there is no promotion: {status.problem or status.waiting or 'the promoter has not begun any yet'}"


def _present(operator: OperatorAdapters) -> RolloutState | None:
    return read_promotion(operator.session).state


def _fleets(suits: Callable[[FleetStanding], bool], operator: OperatorAdapters) -> list[str]:
    """Return the fleets whose standings suit an act."""
    standings, orders = read_standings(operator.session), read_orders(operator.session)
    return [each.name for each in with_orders(standings.values(), orders, time.time()) if suits(each)]


@directive_verb(PromoteFleets, _present)
def promote() -> None:
    """Permit GROUP to begin as soon as all groups that it depends on have succeeded, or to pass without metrics.

    A group waits to be promoted if it has 'manual: true', if its required fleets cannot be reached, or if its
    metrics have no data. The exit code is 3 if there is no such group, or if it does not wait.

    \b
    Example:
      zkdeployment promote promote europe --reason 'the canaries look good'
    """


@directive_verb(FailFleets, _present)
def fail() -> None:
    """Fail GROUP, whose metrics wait for data: the group and all groups that depend on it fail.

    \b
    Example:
      zkdeployment promote fail canary --reason 'the dashboards show errors'
    """


@directive_verb(PausePromotion, _present)
def pause() -> None:
    """Move the branches of no further fleets; fleets that have the revision continue to deploy it.

    \b
    Example:
      zkdeployment promote pause --reason 'latency is up, under investigation'
    """
    echo("'zkdeployment promote resume' continues the promotion; 'promote abort' ends it.", err=True)


@directive_verb(ResumePromotion, _present)
def resume() -> None:
    """Continue a paused promotion, or promote the revision of a failed promotion again.

    Stopped fleets are named: they stay stopped.

    \b
    Example:
      zkdeployment promote resume --reason 'was a broken dashboard'
    """


@directive_verb(AbortPromotion, _present)
def abort() -> None:
    """End the newest promotion as failed; fleets that have the revision keep it.

    A newer commit of the main branch begins a new promotion. To go back, see 'zkdeployment promote rollback'.

    \b
    Example:
      zkdeployment promote abort --reason '1.3 loses sessions'
    """


@act_verb(WithholdFleet, "withhold", open_operator)
@click.argument("fleet", shell_complete=completing(partial(_fleets, lambda fleet: fleet.withheld is None)))
def withhold(planned: WithholdFleet, _act: Act) -> None:
    """Promote nothing to FLEET until it is released; promotions neither wait for the fleet nor count it.

    The branch of the fleet is withheld, also if the fleet gets another name.

    \b
    Example:
      zkdeployment promote withhold eu-1 --reason 'the data centre moves'
    """
    echo(f"withheld {planned.fleet}")
    echo(f"'zkdeployment promote release {planned.fleet}' lets the fleet take part again.", err=True)


@act_verb(ReleaseFleet, "release", open_operator)
@click.argument("fleet", shell_complete=completing(partial(_fleets, lambda fleet: fleet.withheld is not None)))
def release(planned: ReleaseFleet, _act: Act) -> None:
    """Let FLEET take part in promotions again after it was withheld.

    \b
    Example:
      zkdeployment promote release eu-1 --reason 'the move is done'
    """
    echo(f"released {planned.fleet}")


@click.command(name="plan")
@click.argument("fleet", metavar="FLEET")
@click.argument("revision", metavar="[REVISION]", default="")
@output_option
@zookeeper_options
def plan(connection: Servers, fleet: str, revision: str, output: str) -> None:
    """Show what FLEET would do if REVISION were promoted to it: the changes of its tree, and the steps of hosts.

    REVISION is one of the last 200 commits of the main branch; by default, it is the commit that fleets get next.
    The service of the fleet makes the plan, in comparison with the revision that the fleet has. The key is the one
    in token-directory of [promote]. Nothing is changed. The exit code is 0 if nothing would change, 4 if something
    would change, 1 if the service gives no plan, 3 if there is no such fleet or commit.

    \b
    Example:
      zkdeployment promote plan us-1
      zkdeployment promote plan us-1 4f2a91c -o json
    """
    from zkdeployment.promotion.services import FleetService, ServiceClient, ask_plan  # noqa: PLC0415  others need none

    settings = configured_promotion(click.get_current_context().params["config"])
    with open_operator(connection) as operator:
        found, commits = read_promotion(operator.session), read_commits(operator.session)
    standing = known_standing(found.standings, fleet)
    coming = commits.find(revision) if revision else coming_revision(found)
    if coming is None:
        raise RefusedError("the promoter has not read the main branch yet: name the REVISION, or start a promoter")
    client = ServiceClient(settings.token_directory, settings.ca)
    planned = ask_plan(client, FleetService(fleet, standing.service), coming)
    if output != "table":
        emit(planned.to_json(), output, schema="fleet-plan")
    else:
        present = "nothing" if planned.published is None else short(planned.published)
        echo(f"{fleet}: from {present} to {short(coming)}")
        for line in (*planned.diff, "", *planned.lines):
            echo(line)
    raise click.exceptions.Exit(_CHANGES if planned.changes else 0)


@act_verb(PinFleet, "pin", open_operator)
@click.argument("fleet", shell_complete=completing(partial(_fleets, lambda _fleet: True)))
@click.argument("revision", metavar="[REVISION]", default="")
@click.option(
    "--until",
    metavar="WHEN",
    default="",
    help="The end of the pin: a duration such as 2h, or a time with its zone, 2026-05-01T18:00Z.",
)
def pin(planned: PinFleet, pinned: Pin) -> None:
    """Promote nothing to FLEET beyond REVISION, by default the tip of its branch.

    REVISION is a commit of the main branch. Promotions up to it reach the fleet. All others, rollbacks included,
    neither wait for the fleet nor count it. The pin lasts until WHEN, or until 'zkdeployment promote unpin'. A
    promotion under way drops the fleet, unless its branch has moved already: a pin moves no branch. The branch of
    the fleet is pinned, also if the fleet gets another name; another pin replaces the present one. The exit code
    is 3 if there is no such fleet, if the main branch lacks REVISION, or if the fleet has a newer commit.

    \b
    Example:
      zkdeployment promote pin eu-1 --until 3d --reason 'the audit of 1.2 needs until Friday'
      zkdeployment promote pin eu-1 4f2a91c --reason 'eu-1 has no licence for 1.4'
    """
    echo(f"{planned.fleet} is {pinned}")
    echo(f"'zkdeployment promote unpin {planned.fleet}' ends that.", err=True)


@act_verb(UnpinFleet, "unpin", open_operator)
@click.argument("fleet", shell_complete=completing(partial(_fleets, lambda fleet: fleet.pin is not None)))
def unpin(planned: UnpinFleet, _act: Act) -> None:
    """Let promotions beyond its pin reach FLEET again.

    The exit code is 3 if the fleet is not pinned.

    \b
    Example:
      zkdeployment promote unpin eu-1 --reason 'the audit is over'
    """
    echo(f"unpinned {planned.fleet}")


@act_verb(RunFrom, "run-from", open_operator, shares_adapters=True)
@click.argument("revision", metavar="REVISION")
@click.option(
    "--confirm",
    is_flag=True,
    help="Promote REVISION although fleets have a newer commit, or although it failed before.",
)
def run_from(_planned: RunFrom, choice: Choice, *, adapters: OperatorAdapters) -> None:
    """Promote REVISION in place of the tip of the main branch, from the first group on.

    REVISION is one of the last 200 commits of the main branch; its id may be shortened. A promotion under way ends
    first. Newer commits wait until 'zkdeployment promote follow', or until a rollback is committed to the main
    branch. No branch moves back: fleets with a newer commit keep it. The exit code is 3 if the main branch lacks
    REVISION, and without --confirm also if fleets have a newer commit, or if REVISION was refused or has failed.

    \b
    Example:
      zkdeployment promote run-from 4f2a91c --reason 'the later commits wait for the audit'
      zkdeployment promote follow --reason 'the audit is over'
    """
    echo(str(choice))
    state = _present(adapters)
    if state is not None and state.ended is None and state.revision != choice.revision:
        under_way = f"promotion {state.id} of {short(state.revision)}"
        echo(f"{under_way} ends first; 'zkdeployment promote abort' ends it now", err=True)
    echo("Newer commits wait until 'zkdeployment promote follow'.", err=True)


@act_verb(FollowMain, "follow", open_operator)
def follow(_planned: FollowMain, _act: Act) -> None:
    """Promote the tip of the main branch again, after 'zkdeployment promote run-from'.

    The exit code is 3 if no other commit is chosen.

    \b
    Example:
      zkdeployment promote follow --reason 'the audit is over'
    """
    echo("promotions run from the tip of the main branch")


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
    reached all fleets and was not rolled back. Documents stay. The present strategies of the fleets do, too,
    unless --strategy former restores those of REVISION. The commit is pushed with your own rights for the
    repository. The promoter then ends the promotion that is under way, and promotes the commit to all fleets with
    a bad revision at once, without bake times and windows, and then to the usual groups. The exit code is 3 when
    the rollback is refused.

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

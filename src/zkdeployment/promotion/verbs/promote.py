"""``zkdeployment promote``: the newest promotion, and directives to the promoter."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from zkdeployment.base.errors import RefusedError, ZkdeploymentError
from zkdeployment.cli.act_verbs import act_verb
from zkdeployment.cli.options import output_option, zookeeper_options
from zkdeployment.cli.rollout_display import show_rollout
from zkdeployment.cli.terminal import echo
from zkdeployment.config.settings import find_servers
from zkdeployment.fleet.operator import open_operator
from zkdeployment.promotion.store import read_promotion, read_standings, read_withheld
from zkdeployment.promotion.user_acts import (
    AbortPromotion,
    DirectedPromotion,
    FailFleets,
    PausePromotion,
    PromoteFleets,
    ReleaseFleet,
    ResumePromotion,
    WithholdFleet,
)
from zkdeployment.promotion.views.fleets import fleets_status, waiting_for_reset
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import directive_objection, rollout_status

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.promotion.views.fleets import FleetsStatus
    from zkdeployment.strategies.views import RolloutStatus
    from zkdeployment.zookeeper.servers import Servers
    from zkdeployment.zookeeper.session import Session


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
            seen[:] = [
                fleets_status(found.standings.values(), found.withheld, found.state, found.report, promoter)
            ]
            resets[:] = [waiting_for_reset(seen[0].fleets, found.state)]
            if found.state is None:
                raise RefusedError(_missing(seen[0]))
            return rollout_status(found.state, led=promoter is not None, now=time.time())

        def body(status: RolloutStatus) -> dict[str, Any]:
            body = status.to_json()
            del body["coordinator"], body["strategy"]
            facts = seen[0].to_json()
            return {**body, **{key: facts[key] for key in ("promoter", "main", "problem", "waiting")}}

        def remarks() -> tuple[str, ...]:
            waiting = f"the next promotion waits: {seen[0].waiting}" if seen[0].waiting else ""
            return tuple(filter(None, (seen[0].problem, waiting, *resets)))

        show_rollout(look, output, body, watch=watch, names={}, kind=MemberKind.FLEET, remarks=remarks)


def _missing(status: FleetsStatus) -> str:
    """Return why there is no promotion."""
    return f"there is no promotion: {status.problem or status.waiting or 'the promoter has not begun any yet'}"


def _complete(context: click.Context, find: Any) -> list[CompletionItem]:
    try:
        with open_operator(find_servers(context.params.get("zookeeper"), None)) as operator:
            return [CompletionItem(name) for name in find(operator.session)]
    except ZkdeploymentError:
        return []


def _complete_group(
    directive: Directive, context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the groups of the newest promotion that accept a directive, as completions."""

    def find(session: Session) -> list[str]:
        state = read_promotion(session).state
        names = [] if state is None else [group.name for group in state.rollout.strategy.groups]
        return [
            name
            for name in names
            if state is not None
            and name.startswith(incomplete)
            and directive_objection(state, directive, name) is None
        ]

    return _complete(context, find)


def _complete_fleet(
    withheld: bool, context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the fleets that are withheld, or those that are not, as completions."""

    def find(session: Session) -> list[str]:
        held = read_withheld(session)
        return [
            name for name in read_standings(session) if (name in held) is withheld and name.startswith(incomplete)
        ]

    return _complete(context, find)


@act_verb(PromoteFleets, "promote", open_operator)
@click.argument("group", shell_complete=partial(_complete_group, Directive.PROMOTE))
def promote(planned: PromoteFleets, done: DirectedPromotion) -> None:
    """Permit GROUP to begin as soon as all groups that it depends on have succeeded, or to pass without metrics.

    A group waits to be promoted if it has 'manual: true', if its required fleets cannot be reached, or if its
    metrics have no data. The exit code is 3 if there is no such group, or if it does not wait.

    \b
    Example:
      zkdeployment promote promote europe --reason 'the canaries look good'
    """
    _show(done, f"promoted {planned.group} of promotion")


@act_verb(FailFleets, "fail", open_operator)
@click.argument("group", shell_complete=partial(_complete_group, Directive.FAIL))
def fail(planned: FailFleets, done: DirectedPromotion) -> None:
    """Fail GROUP, whose metrics wait for data: the group and all groups that depend on it fail.

    \b
    Example:
      zkdeployment promote fail canary --reason 'the dashboards show errors'
    """
    _show(done, f"failed {planned.group} of promotion")


@act_verb(PausePromotion, "pause", open_operator)
def pause(_planned: PausePromotion, done: DirectedPromotion) -> None:
    """Move the branches of no further fleets; fleets that have the revision continue to deploy it.

    \b
    Example:
      zkdeployment promote pause --reason 'latency is up, under investigation'
    """
    _show(done, "paused promotion")
    echo("'zkdeployment promote resume' continues the promotion; 'promote abort' ends it.", err=True)


@act_verb(ResumePromotion, "resume", open_operator)
def resume(_planned: ResumePromotion, done: DirectedPromotion) -> None:
    """Continue a paused promotion, or promote the revision of a failed promotion again.

    \b
    Example:
      zkdeployment promote resume --reason 'was a broken dashboard'
    """
    _show(done, "resumed promotion")


@act_verb(AbortPromotion, "abort", open_operator)
def abort(_planned: AbortPromotion, done: DirectedPromotion) -> None:
    """End the newest promotion as failed; fleets that have the revision keep it.

    A newer commit of the main branch begins a new promotion. To go back, see 'zkdeployment promote rollback'.

    \b
    Example:
      zkdeployment promote abort --reason '1.3 loses sessions'
    """
    _show(done, "aborted promotion")


@act_verb(WithholdFleet, "withhold", open_operator)
@click.argument("fleet", shell_complete=partial(_complete_fleet, False))
def withhold(planned: WithholdFleet, _act: Act) -> None:
    """Promote nothing to FLEET until it is released; promotions neither wait for the fleet nor count it.

    \b
    Example:
      zkdeployment promote withhold eu-1 --reason 'the data centre moves'
    """
    echo(f"withheld {planned.fleet}")
    echo(f"'zkdeployment promote release {planned.fleet}' lets the fleet take part again.", err=True)


@act_verb(ReleaseFleet, "release", open_operator)
@click.argument("fleet", shell_complete=partial(_complete_fleet, True))
def release(planned: ReleaseFleet, _act: Act) -> None:
    """Let FLEET take part in promotions again after it was withheld.

    \b
    Example:
      zkdeployment promote release eu-1 --reason 'the move is done'
    """
    echo(f"released {planned.fleet}")


def _show(done: DirectedPromotion, act: str) -> None:
    echo(f"{act} {done.promotion}")
    if not done.promoter:
        echo("no promoter runs at present: the act takes effect when one starts", err=True)

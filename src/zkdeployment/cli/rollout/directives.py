"""``zkdeployment rollout promote|pause|resume|abort``: what operators ask of the rollout under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from zkdeployment.cli.shared.operator_options import act, reason_option
from zkdeployment.cli.shared.options import find_connection, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.fleet.rollout_directives import directive_objection
from zkdeployment.rollout.state import Directive
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers
    from zkdeployment.rollout.state import RolloutState


def _complete_group(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the groups of the current rollout that wait to be promoted."""
    try:
        with open_operator(find_connection(context.params.get("zookeeper"), None)) as operator:
            running = operator.rollouts.rollout()
    except ZkdeploymentError:
        return []
    if running is None:
        return []
    groups = [group.name for group in running.rollout.strategy.groups if group.name.startswith(incomplete)]
    return [
        CompletionItem(name) for name in groups if directive_objection(running, Directive.PROMOTE, name) is None
    ]


@click.command(name="promote")
@click.argument("group", shell_complete=_complete_group)
@reason_option(required=True)
@zookeeper_options
def promote(connection: Servers, group: str, reason: str) -> None:
    """Let GROUP begin, which waits for that; once all it depends on succeeded.

    That is a group marked 'manual: true' in the strategy, or a group whose required hosts are not registered: it
    begins without them.

    Exits with 3 if there is no such group, if it does not wait to be promoted, or if the rollout is over.

    \b
    Example:
      zkdeployment rollout promote compute-nodes --reason 'the canaries look good'
    """
    running = _ask(connection, Directive.PROMOTE, reason, group)
    echo(f"promoted {group}, of rollout {running.id}")


@click.command(name="pause")
@reason_option(required=True)
@zookeeper_options
def pause(connection: Servers, reason: str) -> None:
    """Let no further host begin in the rollout under way; those that began go on to the end of their phase.

    \b
    Example:
      zkdeployment rollout pause --reason 'latency is up, looking into it'
    """
    running = _ask(connection, Directive.PAUSE, reason)
    echo(f"paused rollout {running.id}")
    echo("'zkdeployment rollout resume' goes on; 'zkdeployment rollout abort' ends it.", err=True)


@click.command(name="resume")
@reason_option(required=False)
@zookeeper_options
def resume(connection: Servers, reason: str) -> None:
    """Go on with a rollout that was paused.

    \b
    Example:
      zkdeployment rollout resume --reason 'was a broken dashboard'
    """
    running = _ask(connection, Directive.RESUME, reason)
    echo(f"resumed rollout {running.id}")


@click.command(name="abort")
@reason_option(required=True)
@zookeeper_options
def abort(connection: Servers, reason: str) -> None:
    """End the rollout under way as failed, which stops the fleet: nothing starts until it is resumed.

    Hosts finish the step they are in. 'zkdeployment resume' begins the rollout anew, for the hosts that do not
    have the revision yet; 'zkdeployment resume --latest' publishes the branch's tip first.

    \b
    Example:
      zkdeployment rollout abort --reason 'web 1.3 loses sessions'
    """
    running = _ask(connection, Directive.ABORT, reason)
    echo(f"aborted rollout {running.id}")
    echo(
        "The fleet is stopped as soon as the coordinator has taken that; 'zkdeployment stop' stops it at once.",
        err=True,
    )


def _ask(connection: Servers, directive: Directive, reason: str, group: str | None = None) -> RolloutState:
    what = f"rollout {directive.value}" + ("" if group is None else f" {group}")
    with open_operator(connection) as operator:
        running = operator.rollouts.direct(directive, act(what, reason), group)
        if operator.rollouts.coordinator() is None:
            echo("no coordinator runs: it takes effect when one does", err=True)
    return running

"""``zkdeployment rollout promote|pause|resume|abort``: directives of operators to the present rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from zkdeployment.cli.shared.operator_options import new_act, reason_option
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.config.find_servers import find_servers
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.fleet.rollouts.directives import directive_description, directive_objection
from zkdeployment.rollout.state import Directive
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers
    from zkdeployment.rollout.state import RolloutState


def _complete_group(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the groups of the present rollout that can be promoted, as completions."""
    try:
        with open_operator(find_servers(context.params.get("zookeeper"), None)) as operator:
            state = operator.rollouts.rollout()
    except ZkdeploymentError:
        return []
    if state is None:
        return []
    groups = [group.name for group in state.rollout.strategy.groups if group.name.startswith(incomplete)]
    return [CompletionItem(name) for name in groups if directive_objection(state, Directive.PROMOTE, name) is None]


@click.command(name="promote")
@click.argument("group", shell_complete=_complete_group)
@reason_option(required=True)
@zookeeper_options
def promote(connection: Servers, group: str, reason: str) -> None:
    """Permit GROUP to begin as soon as all groups that it depends on have succeeded.

    Only a group with 'manual: true' in the strategy waits to be promoted, or a group whose required hosts are not
    registered: that group begins without these hosts.

    The exit code is 3 if there is no such group, if it does not wait to be promoted, or if the rollout is over.

    \b
    Example:
      zkdeployment rollout promote compute-nodes --reason 'the canaries look good'
    """
    state = _direct(connection, Directive.PROMOTE, reason, group)
    echo(f"promoted {group} of rollout {state.id}")


@click.command(name="pause")
@reason_option(required=True)
@zookeeper_options
def pause(connection: Servers, reason: str) -> None:
    """Start no further hosts in the present rollout; hosts that began finish their phase.

    \b
    Example:
      zkdeployment rollout pause --reason 'latency is up, under investigation'
    """
    state = _direct(connection, Directive.PAUSE, reason)
    echo(f"paused rollout {state.id}")
    echo("'zkdeployment rollout resume' continues the rollout; 'zkdeployment rollout abort' ends it.", err=True)


@click.command(name="resume")
@reason_option(required=False)
@zookeeper_options
def resume(connection: Servers, reason: str) -> None:
    """Continue a paused rollout.

    \b
    Example:
      zkdeployment rollout resume --reason 'was a broken dashboard'
    """
    state = _direct(connection, Directive.RESUME, reason)
    echo(f"resumed rollout {state.id}")


@click.command(name="abort")
@reason_option(required=True)
@zookeeper_options
def abort(connection: Servers, reason: str) -> None:
    """End the present rollout as failed, which stops the fleet: nothing starts until the fleet is resumed.

    Hosts finish their present step. 'zkdeployment resume' begins the rollout again for all hosts without the
    revision; 'zkdeployment resume --latest' publishes the branch's tip first.

    \b
    Example:
      zkdeployment rollout abort --reason 'web 1.3 loses sessions'
    """
    state = _direct(connection, Directive.ABORT, reason)
    echo(f"aborted rollout {state.id}")
    echo(
        "The coordinator stops the fleet when it reads this; 'zkdeployment stop' stops the fleet at once.",
        err=True,
    )


def _direct(connection: Servers, directive: Directive, reason: str, group: str | None = None) -> RolloutState:
    """Record a directive; return the rollout that it applies to."""
    description = directive_description(directive, group)
    with open_operator(connection) as operator:
        state = operator.rollouts.direct(directive, new_act(description, reason), group)
        if operator.rollouts.coordinator() is None:
            echo("no coordinator runs: the directive takes effect when a coordinator runs", err=True)
    return state

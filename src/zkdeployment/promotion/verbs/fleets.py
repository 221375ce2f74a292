"""``zkdeployment fleets``: all fleets under promotion, the worst first, and acts on all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.act import NO_REASON
from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.base.errors import ConfigurationError, NotFoundError, ZkdeploymentError
from zkdeployment.base.text import counted
from zkdeployment.cli.operator_options import reason_option
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.fleet.operator import open_operator
from zkdeployment.promotion.acts import configured_promotion, open_main
from zkdeployment.promotion.records import FleetStanding, FleetState
from zkdeployment.promotion.store import PromotionSnapshot, read_promotion
from zkdeployment.promotion.views.fleets import FleetsStatus, explain_fleet, fleets_status, ordered
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.promotion.settings import PromoteSettings
    from zkdeployment.zookeeper.servers import Servers

_NOT_CONVERGED = 4

#: The name of a fleet, and the address of its service.
FleetAddress = tuple[str, str]

_COLOURS = {
    FleetState.CONVERGED: "green",
    FleetState.ROLLING_OUT: "cyan",
    FleetState.HELD: "yellow",
}


@click.group(name="fleets", cls=VerbGroup, invoke_without_command=True)
@output_option
@zookeeper_options
@click.pass_context
def command(context: click.Context, connection: Servers, output: str) -> None:
    """Show all fleets under promotion, the worst first, as the promoter of the home ensemble last saw them.

    BEHIND is the number of commits of the main branch that the fleet's branch lacks. The exit code is 0 if every
    fleet has converged at the tip of the main branch, else 4, and 3 if no fleets are known.

    \b
    Example:
      zkdeployment fleets
      zkdeployment fleets why eu-1
      zkdeployment fleets stop --reason 'web 1.3 loses sessions'
    """
    if context.invoked_subcommand is not None:
        return
    _, status = _read(connection)
    if output != "table":
        emit(status.to_json(), output, schema="fleets")
    else:
        console_for(stderr=False).print(_table(status, time.time()), soft_wrap=True)
        for line in filter(None, (status.sentence, *status.remarks)):
            echo(line)
    raise click.exceptions.Exit(0 if status.converged else _NOT_CONVERGED)


def _read(connection: Servers) -> tuple[PromotionSnapshot, FleetsStatus]:
    """Return all records and the fleets; raises ``NotFoundError`` if no fleets are known."""
    with open_operator(connection) as operator:
        found, promoter = read_promotion(operator.session), read_leader(operator.session, MemberKind.FLEET)
    status = fleets_status(found, promoter, time.time())
    if not status.fleets:
        raise NotFoundError(f"there are no fleets: {status.problem or 'the promoter has not read them yet'}")
    return found, status


def _table(status: FleetsStatus, now: float) -> ResponsiveTable:
    headings = ("FLEET", "STATE", "REVISION", "BEHIND", "HOSTS", "SINCE", "BY", "WHY")
    rows = [
        (
            fleet.name,
            styled(fleet.state.value, _COLOURS.get(fleet.state, "red")),
            short(fleet.revision) if fleet.revision else "-",
            str(fleet.behind),
            f"{fleet.converged}/{fleet.hosts}",
            "" if fleet.since is None else age(max(0.0, now - fleet.since)),
            fleet.by,
            styled(_reason(fleet)),
        )
        for fleet in status.fleets
    ]
    return ResponsiveTable(
        headings,
        rows,
        whole=headings[:-1],
        numbers=("BEHIND", "HOSTS"),
        dispensable=("BY",),
    )


def _reason(fleet: FleetStanding) -> str:
    return "; ".join(filter(None, (ordered(fleet), fleet.problem)))


@command.command()
@click.argument("fleet", metavar="FLEET")
@output_option
@zookeeper_options
def why(connection: Servers, fleet: str, output: str) -> None:
    """Explain the state of FLEET: its branch, its service, its group in the promotion, and what it waits for.

    The exit code is 3 if there is no such fleet.

    \b
    Example:
      zkdeployment fleets why eu-1
    """
    found, status = _read(connection)
    standing = next((each for each in status.fleets if each.name == fleet), None)
    if standing is None:
        names = ", ".join(sorted(each.name for each in status.fleets))
        raise NotFoundError(f"there is no fleet {fleet}; expected one of: {names}")
    lines = explain_fleet(standing, status, found.state, time.time())
    if output != "table":
        emit({"fleet": standing.to_json(), "words": lines}, output, schema="fleet-why")
        return
    for line in lines:
        echo(line)


def _everywhere(act: str, done: str, text: str) -> click.Command:
    """Return the verb that performs an act at the services of all fleets."""

    @command.command(name=act, help=text)
    @reason_option(required=False)
    @zookeeper_options
    def verb(connection: Servers, reason: str, *, latest: bool = False) -> None:
        from zkdeployment.promotion.services import ServiceClient, act_everywhere  # noqa: PLC0415  others need none

        settings = configured_promotion(click.get_current_context().params["config"])
        tokens = settings.operator_token_directory
        if tokens is None:
            raise ConfigurationError(
                "operator-token-directory: not specified in [promote]; expected a directory with a file for each"
                " fleet: USER:KEY of a user with the role operator, and the host of the service"
            )
        client, asked, failed = ServiceClient(tokens, settings.ca), set[FleetAddress](), set[str]()
        for found in _addresses(settings, connection):
            new = dict(each for each in found if each not in asked)
            asked |= new.items()
            for outcome in act_everywhere(client, new, act, reason or NO_REASON, latest=latest):
                (failed.add if outcome.problem else failed.discard)(outcome.fleet)
                echo(f"{outcome.fleet}: {f'NOT {done}: {outcome.problem}' if outcome.problem else done}")
        if failed:
            number = len({fleet for fleet, _ in asked})
            echo(f"{counted(len(failed), 'fleet')} of {number} not {done}", err=True)
            raise click.exceptions.Exit(1)

    return verb


def _addresses(settings: PromoteSettings, connection: Servers) -> Iterator[Collection[FleetAddress]]:
    """Yield the fleets with the addresses of their services: those that the promoter recorded, then those of main.

    The act on the first ones does not wait for the git server. Each key is sent only to its own host, so that
    neither of them can lead a key elsewhere. Raises what reading main raises if the promoter recorded no fleets.
    """
    recorded: Collection[FleetAddress] = ()
    try:
        recorded = [(fleet.name, fleet.service) for fleet in _read(connection)[1].fleets]
    except ZkdeploymentError as error:
        echo(f"{error}; the fleets are only those of the main branch", err=True)
    yield recorded
    try:
        with open_main(settings) as main:
            of_main = [(fleet.name, fleet.service) for fleet in main.fleets().fleets]
    except ZkdeploymentError as error:
        if not recorded:
            raise
        echo(f"{error}; the fleets are those that the promoter recorded last", err=True)
    else:
        yield of_main


_COMMON = """The fleets are those that the promoter recorded, and then those that only the main branch has, which
is read with your own rights for the repository. The keys are in operator-token-directory of [promote]. A line for
each fleet has the outcome. The exit code is 1 if one of them did not answer or refused.

\b
Example:
  zkdeployment fleets {act}
  zkdeployment fleets {act} --reason '{reason}'
"""

stop = _everywhere(
    "stop",
    "stopped",
    "Stop all fleets at once: hosts finish their present step, and start no other step.\n\n"
    + _COMMON.format(act="stop", reason="web 1.3 loses sessions"),
)
hold = _everywhere(
    "hold",
    "held",
    "Hold all fleets until the next publication of each.\n\n"
    + _COMMON.format(act="hold", reason="the network is being repaired"),
)
resume = click.option(
    "--latest", is_flag=True, help="Request that each syncer first publishes the tip of its branch."
)(
    _everywhere(
        "resume",
        "resumed",
        """End the stops or holds of all fleets.

Without --latest, hosts continue with the revision that their fleet had published when it was stopped. After a
rollback, use --latest as soon as the branches have it.

"""
        + _COMMON.format(act="resume", reason="it was a false alarm")
        + "  zkdeployment fleets resume --latest --reason 'rolled back'\n",
    )
)

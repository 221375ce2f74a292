"""``zkdeployment session extend`` and ``retire``: acts of operators on sessions of tenants."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.sessions import extend_session, retire_session
from zkdeployment.cli.pool.tenants import acting_operator, print_session, session_view
from zkdeployment.cli.shared.options import output_option, zookeeper_options
from zkdeployment.documents.durations import duration_seconds
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


def _read_delta(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the seconds of a duration with an optional sign."""
    if given is None:
        return None
    seconds = duration_seconds(given.lstrip("-") if given.startswith("-") else given)
    if seconds is None:
        raise click.BadParameter(f"expected a duration such as 2h, 1h30m or -30m, found {given!a}")
    return -seconds if given.startswith("-") else seconds


def _read_moment(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the time in seconds since the epoch that a text means in the local time zone, or in its own."""
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"expected a time such as 2027-01-31T18:00, found {given!a}") from error


@click.command(name="extend")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@click.option(
    "--by", "delta", metavar="DURATION", callback=_read_delta, help="Later by this: 2h; or earlier: -30m."
)
@click.option("--until", metavar="TIME", callback=_read_moment, help="The new end: 2027-01-31T18:00.")
@output_option
@zookeeper_options
def extend(connection: Servers, number: int, delta: float | None, until: float | None, output: str) -> None:
    """Change the end of an active session.

    Operators are not limited by the tenant's longest lifetime of sessions. The exit code is 3 if there is no such
    session, or if it has ended.

    \b
    Example:
      zkdeployment session extend 17 --by 2h
      zkdeployment session extend 17 --until 2027-01-31T18:00
    """
    if (delta is None) == (until is None):
        raise click.UsageError("expected --by DURATION or --until TIME")
    with open_pools(connection) as adapters:
        details = extend_session(number, adapters, acting_operator(), until=until, delta=delta or 0.0)
        users = adapters.users.users()
    print_session(session_view(details, users), output)


@click.command(name="retire")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@output_option
@zookeeper_options
def retire(connection: Servers, number: int, output: str) -> None:
    """End a session now: its tenant is logged out of the nodes, which are deprovisioned.

    The exit code is 3 if there is no such session, or if it has ended.

    \b
    Example:
      zkdeployment session retire 17
    """
    with open_pools(connection) as adapters:
        details, users = retire_session(number, adapters, acting_operator()), adapters.users.users()
    print_session(session_view(details, users), output)

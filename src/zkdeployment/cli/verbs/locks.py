"""``zkdeployment locks``: shows the holders and waiting hosts of locks, and releases locks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.durations import age
from zkdeployment.base.lock import Lock, LockKind
from zkdeployment.base.text import listing, printable
from zkdeployment.cli.operator_options import new_act, reason_option
from zkdeployment.cli.options import emit, output_option, require_path, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.locks import (
    Release,
    by_urgency,
    check_release,
    find_lock,
    is_orphaned,
    lock_views,
    plan_release,
    present_hosts,
    reboot_of_holder,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.zookeeper.servers import Servers


#: The limit of waiting hosts that a row names.
_NAMED = 3


@click.group(name="locks", cls=VerbGroup, invoke_without_command=True)
@output_option
@zookeeper_options
@click.pass_context
def command(context: click.Context, connection: Servers, output: str) -> None:
    """Show all held locks: of services, of roles with a controller, and of the syncer.

    Locks whose holder is absent or lost its session come first, then the oldest locks.

    \b
    Example:
      zkdeployment locks
      zkdeployment locks release web-server --reason 'app7 burnt down'
    """
    if context.invoked_subcommand is not None:
        return
    with open_operator(connection) as operator:
        fleet = operator.fleet.snapshot()
        locks = by_urgency(operator.locks.locks(), fleet)
    if output != "table":
        emit({"locks": [view.to_json() for view in lock_views(locks, fleet)]}, output, schema="locks")
    elif locks:
        console_for(stderr=False).print(_table(locks, fleet, time.time()), soft_wrap=True)
    else:
        echo("no lock is held")


@command.command()
@click.argument("name", metavar="PATH|ROLE")
@reason_option(required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, which is asked only at a terminal.")
@click.option("--force", is_flag=True, help="Release the lock even while the holder works under it.")
@zookeeper_options
def release(connection: Servers, name: str, reason: str, yes: bool, force: bool) -> None:
    """Release the lock of a service (its path) or of a role, so that the next host in the queue acquires it.

    Use this for the lock of a role whose host does not return, after you made sure that the host runs no script.
    A host notices the loss of a service's lock before its next step. While the holder works under the lock, the
    lock is released only with --force (else exit code 3): the script of the holder continues, and the next host
    waits for the lock delay.

    A lock may be kept for a host that was cut off in the middle of a script. The next host does not wait after its
    release: make sure that the script has ended.

    \b
    Example:
      zkdeployment locks release web-server --reason 'app7 burnt down'
      zkdeployment locks release /shop/web --reason 'the script ended, the agent hangs' --yes
    """
    if "/" in name:
        require_path(name)
    with open_operator(connection) as operator:
        lock = find_lock(operator.locks.locks(), name)
        planned = plan_release(lock, operator.fleet.snapshot(), now=time.time())
        check_release(planned, force=force)
        if not yes and sys.stdin is not None and sys.stdin.isatty():
            _confirm(planned)
        operator.locks.release(planned.node, new_act(planned.description, reason))
    echo(f"released {lock}, from {planned.owner}")


def _confirm(planned: Release) -> None:
    echo(f"This releases {planned.lock}, which {planned.owner} holds.", err=True)
    if planned.objection is not None:
        echo(f"Warning: {planned.objection}.", err=True)
    name = printable(planned.lock.name)
    typed = click.prompt(f"Type {name} to continue", err=True, default="", show_default=False)
    if typed.strip() != name:
        raise click.Abort


def _table(locks: Sequence[Lock], fleet: FleetSnapshot, now: float) -> ResponsiveTable:
    rows = (_cells(lock, fleet, now) for lock in locks)
    return ResponsiveTable(("LOCK", "HOLDER", "FOR", "AT WORK", "WAITING"), rows, whole=("LOCK",))


def _cells(lock: Lock, fleet: FleetSnapshot, now: float) -> tuple[Text | str, ...]:
    holder = lock.holder
    who = styled("-" if holder is None else holder.identity)
    if is_orphaned(lock, present_hosts(fleet)):
        who.append(" not registered", style="red")
    kept = ", kept for the holder" if lock.is_kept else ""
    if (reboot := reboot_of_holder(lock, fleet)) is not None:
        kept = f", the holder reboots, {reboot.return_text}"
    work = styled("" if lock.work is None else f"{lock.work.step}{kept}")
    if lock.abandoned_work is not None:
        work = styled(f"left by {lock.abandoned_work} ({age(now - lock.abandoned_work.since)})", style="red")
    return (
        f"role {lock.name}" if lock.kind is LockKind.ROLE else lock.name,
        who,
        "" if holder is None else age(now - lock.since),
        work,
        _waiting(lock, now),
    )


def _waiting(lock: Lock, now: float) -> str:
    return listing([f"{contender.identity} {age(now - contender.since)}" for contender in lock.waiting], _NAMED)

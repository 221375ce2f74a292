"""``zkdeployment history`` and ``audit``: past publications with their outcome, and the acts of operators."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age
from zkdeployment.cli.options import emit, output_option, period_options, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.history import (
    ALWAYS,
    REFUSED,
    Period,
    acts_during,
    audit_records,
    by_importance,
    find_record,
    hosts_text,
    publication_body,
    reboots_during,
    refused_pushes,
)
from zkdeployment.publishing.store.requests import REFUSALS_LIMIT
from zkdeployment.service.users.login_store import read_failed_logins
from zkdeployment.strategies.views import final_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.text import Text

    from zkdeployment.base.act import Act
    from zkdeployment.base.deployment import HostResult
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.publishing.records import PublicationRecord, Refusal
    from zkdeployment.zookeeper.servers import Servers

_LAST = 20
#: Characters of a subject in the list.
_SUBJECT = 50


@click.group(name="history", cls=VerbGroup, invoke_without_command=True)
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"The number of publications to show.  [default: {_LAST}, or all in the given period]",
)
@click.option("--refused", is_flag=True, help="Show the pushes that the syncer refused instead.")
@period_options
@output_option
@zookeeper_options
@click.pass_context
def command(
    context: click.Context,
    connection: Servers,
    *,
    last: int | None,
    refused: bool,
    since: float | None,
    until: float | None,
    output: str,
) -> None:
    """Show the last publications, the newest first: revision, author, time and outcome.

    REPAIRED counts hosts that failed at first and succeeded later. With --refused, the verb shows the last
    pushes that the syncer refused, with the problems: at most one refusal of each commit.

    \b
    Example:
      zkdeployment history
      zkdeployment history --refused
      zkdeployment history --since 2027-01-29 --until 2027-02-01
      zkdeployment history show 4f2a9c
    """
    if context.invoked_subcommand is not None:
        return
    period = Period(since, until)
    with open_operator(connection) as operator:
        if refused:
            limit = last or (REFUSED if period == ALWAYS else REFUSALS_LIMIT)
            _show_refused(refused_pushes(operator.fleet.refusals(), period=period, limit=limit), output)
            return
        if period == ALWAYS:
            records = operator.fleet.history(last or _LAST)
        else:
            records = tuple(each for each in operator.fleet.history() if each.time in period)[:last]
    if output != "table":
        emit({"publications": [record.summary() for record in records]}, output, schema="history")
    elif records:
        console_for(stderr=False).print(render(records), soft_wrap=True)
    else:
        echo("nothing was published yet" if period == ALWAYS else "nothing was published in this period", err=True)


@command.command()
@click.argument("publication", metavar="REV|SEQUENCE")
@output_option
@zookeeper_options
def show(connection: Servers, publication: str, output: str) -> None:
    """Show one publication: its origin, the outcome on each host, and the acts of operators until the next one.

    REV may be the beginning of a commit id; the newest publication of REV is shown. The exit code is 3 if the
    history has no such publication.

    \b
    Example:
      zkdeployment history show 4f2a9c -o json
    """
    with open_operator(connection) as operator:
        records = operator.fleet.history()
        operator_acts = operator.fleet.acts()
        record = find_record(records, publication)
        rollouts = operator.rollouts.attempts(record.sequence)
        reboots = operator.fleet.reboots(time.time())
    if output != "table":
        body = publication_body(record, records, operator_acts, rollouts, reboots, now=time.time())
        emit(body, output, schema="publication")
        return
    acts = acts_during(records, record, operator_acts)
    reports = [styled(final_report(attempt)) for attempt in rollouts]
    console_for(stderr=False).print(Group(render_publication(record, acts, reboots), *reports), soft_wrap=True)


def _show_refused(refusals: Sequence[Refusal], output: str) -> None:
    if output != "table":
        emit({"refused": [each.to_json() for each in refusals]}, output, schema="refused")
    elif refusals:
        console_for(stderr=False).print(render_refused(refusals), soft_wrap=True)
    else:
        echo("no refused push is recorded", err=True)


def render_refused(refusals: Sequence[Refusal]) -> RenderableType:
    """Return a table of refused pushes."""
    rows = (
        (
            short(each.revision),
            _when(each.time, "%Y-%m-%d %H:%M"),
            each.author.partition(" <")[0] or "-",
            _cut(each.subject),
            "; ".join(each.problems),
        )
        for each in refusals
    )
    whole = ("REVISION", "REFUSED")
    return ResponsiveTable((*whole, "AUTHOR", "SUBJECT", "PROBLEMS"), rows, whole=whole, dispensable=("AUTHOR",))


def render(records: Sequence[PublicationRecord]) -> RenderableType:
    """Return a table of publications."""
    whole, numbers = ("REVISION", "PUBLISHED", "TOOK"), ("DONE", "FAILED", "REPAIRED", "OF")
    return ResponsiveTable(
        (*whole, *numbers, "AUTHOR", "SUBJECT", "FORCED BY"),
        map(_cells, records),
        whole=whole,
        numbers=numbers,
        dispensable=("FAILED", "REPAIRED", "OF", "AUTHOR", "FORCED BY"),
    )


def _cells(record: PublicationRecord) -> tuple[Text | str, ...]:
    author, subject = ("-", "") if record.origin is None else (record.origin.author, record.origin.subject)
    return (
        short(record.revision),
        _when(record.time, "%Y-%m-%d %H:%M"),
        _took(record),
        str(record.done),
        styled(str(record.failed), style="red" if record.failed else ""),
        styled(str(record.repaired), style="yellow" if record.repaired else ""),
        "-" if record.is_repetition else str(record.expected),
        author.partition(" <")[0],
        _cut(subject),
        "" if record.forced is None else record.forced.by,
    )


def render_publication(
    record: PublicationRecord, acts: Sequence[Act], reboots: Iterable[RebootRecord]
) -> RenderableType:
    """Return the facts of a publication, the ``acts`` during it, its awaited reboots, and the results of hosts."""
    return Group(*_detail(record, acts, reboots))


def _cut(subject: str) -> str:
    return subject if len(subject) <= _SUBJECT else f"{subject[: _SUBJECT - 3]}..."


def _detail(
    record: PublicationRecord, acts: Sequence[Act], reboots: Iterable[RebootRecord]
) -> Iterator[RenderableType]:
    facts = [("revision", str(record.revision)), ("sequence", str(record.sequence))]
    if record.origin is not None:
        facts += [("subject", record.origin.subject), ("author", record.origin.author)]
        facts += [("committed", _when(record.origin.time)), ("signer", record.origin.signer or "not asked for")]
    facts.append(("published", _when(record.time)))
    if record.forced is not None:
        facts.append(("forced by", str(record.forced)))
    facts.append(("took", _took(record) or "-"))
    excluded = (
        f", {record.excluded} of them in no group of the strategy or in maintenance" if record.excluded else ""
    )
    repaired = f" ({record.repaired} of them after a failure)" if record.repaired else ""
    counts = f"{record.done} done{repaired}, {record.failed} failed"
    if record.is_repetition:
        counts = f"{hosts_text(record)}: they keep what publication {record.since} deployed"
    facts.append(("hosts", f"{counts}, {record.hosts} registered when published{excluded}"))
    yield from (styled(f"{name:10} {value}") for name, value in facts)
    yield from (styled(f"{_when(act.time):10} {act}", style="yellow") for act in acts)
    yield from (styled(f"{reboot.host_name} {reboot}", style="blue") for reboot in reboots_during(record, reboots))
    if record.results:
        headings = ("HOST", "ID", "RESULT", "AT", "TOOK", "ERROR")
        yield ResponsiveTable(
            headings, map(_result, by_importance(record.results.values())), whole=("HOST", "RESULT")
        )
    if record.left_out:
        yield styled(f"{record.left_out} more hosts are done; their results are not kept one by one")


def _result(result: HostResult) -> tuple[Text | str, ...]:
    if result.error is not None:
        outcome = styled("failed", style="red")
    else:
        outcome = styled("repaired", style="yellow") if result.is_repaired else styled("done", style="green")
    error = result.error or (result.former.error if result.former is not None else "")
    return result.host_name, result.host_id, outcome, _when(result.time), age(result.seconds), error


def _when(seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return time.strftime(form, time.localtime(seconds)) if seconds else "-"


def _took(record: PublicationRecord) -> str:
    return "" if record.ended is None else age(record.ended - record.time)


@click.command(name="audit")
@click.argument("who", metavar="[WHO]", default="")
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="The number of records of each kind to show.",
)
@period_options
@output_option
@zookeeper_options
def audit(
    connection: Servers, *, who: str, last: int, since: float | None, until: float | None, output: str
) -> None:
    """Show the acts of operators and the failed logins to the service, the newest first.

    WHO is a user, USER@HOST or an address; without it, the records of all are shown. The last 500 acts are kept.

    \b
    Example:
      zkdeployment audit
      zkdeployment audit ann --since 7d
    """
    with open_operator(connection) as operator:
        acts, failed = operator.fleet.acts(), read_failed_logins(operator.session)
    records = audit_records(acts, failed, who=who, period=Period(since, until), limit=last)
    if output != "table":
        emit(records.to_json(), output, schema="audit")
        return
    console = console_for(stderr=False)
    if records.acts:
        rows = ((_when_failed(act.time), act.by, act.what, act.reason) for act in records.acts)
        console.print(
            ResponsiveTable(("WHEN", "BY", "ACT", "REASON"), rows, whole=("WHEN", "ACT")), soft_wrap=True
        )
    else:
        echo("no act is recorded", err=True)
    if records.failed_logins:
        logins = (
            (_when_failed(login.time), login.user or "-", login.address, login.problem.value)
            for login in records.failed_logins
        )
        headings = ("FAILED LOGIN", "USER", "FROM", "PROBLEM")
        console.print(ResponsiveTable(headings, logins, whole=("FAILED LOGIN",)), soft_wrap=True)


def _when_failed(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))

"""The text of a plan: its title, hosts with equal steps together, and the order of groups, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.text import counted, listing
from zkdeployment.fleet.views.forecast import Outlook

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.fleet.views.forecast import Forecast, HostForecast, Prediction
    from zkdeployment.strategies.order import Turn

HEADINGS = {
    Outlook.FAILS: "would fail",
    Outlook.CHANGES: "would change",
    Outlook.UNKNOWN: "unknown",
    Outlook.REPEATS: "would repeat their deployments",
    Outlook.NOTHING: "would do nothing",
}

#: The limit of hosts of a group that the short form names, and of metrics of a group.
_NAMED = 5
_MOST_METRICS = 5


def short_text(predicted: Prediction) -> Iterator[str]:
    """Yield the lines of the short form with those of the additions of features."""
    yield from short_lines(predicted.forecast)
    if predicted.lines:
        yield ""
    yield from (f"- {line}" for line in predicted.lines)


def short_lines(prediction: Forecast) -> Iterator[str]:
    """Yield the lines of the short form, which is also valid Markdown."""
    yield f"**{plan_title(prediction)}**"
    for outlook, heading in HEADINGS.items():
        for group in prediction.groups(outlook):
            yield ""
            yield f"- {counted(len(group), 'host')} {heading}{outlook_reason(group)}: {host_names(group, _NAMED)}"
            if outlook is Outlook.CHANGES:
                yield from (f"  {number}. {line}" for number, (line, _) in enumerate(group[0].lines, 1))
            if group[0].unchanged:
                yield f"  - {group[0].unchanged}"
    yield from order_lines(prediction, bullet="- ", most=_NAMED)


def order_lines(prediction: Forecast, *, bullet: str = "", most: int | None = None) -> Iterator[str]:
    """Yield the changes of the strategy and the order of hosts, each after an empty line.

    ``most`` is the number of hosts that each group names.
    """
    changes = [*prediction.strategy.describe(), *prediction.documents.describe()]
    if changes:
        yield from ("", *(f"{bullet}{line}" for line in changes))
    if prediction.order is None:
        return
    names = {host.identity.id: host_names([host]) for host in prediction.hosts}

    def named(ids: Sequence[str]) -> str:
        return listing([names.get(host_id, host_id) for host_id in ids], most)

    yield from ("", f"{bullet}the order, by {prediction.order.strategy}:")
    for number, turn in enumerate(prediction.order.turns, 1):
        yield f"{number:4}. {_group(turn)}: {named(turn.hosts) or 'no hosts'}"
        if turn.before:
            yield f"      with an earlier group: {named(turn.before)}"
        if turn.fault:
            yield f"      fails: {turn.fault}"
        if turn.decides:
            yield f"      metrics decide: {listing(turn.decides, _MOST_METRICS)}"
    if prediction.order.others:
        yield f"{bullet}in no group, so these hosts keep their version: {named(prediction.order.others)}"


def _group(turn: Turn) -> str:
    group = turn.group
    facts = ["critical"] if group.critical else []
    facts += ["manual"] if group.pace.manual else []
    facts += [f"after {', '.join(group.depends_on)}"] if group.depends_on else []
    return f"{group.name} ({', '.join(facts)})" if facts else group.name


def plan_title(prediction: Forecast) -> str:
    """Return the title of a plan: its revision and its summary."""
    title = "the plan" if prediction.revision is None else f"the plan of {short(prediction.revision)}"
    return f"{title} - {prediction.summary}"


def host_names(group: Sequence[HostForecast], most: int | None = None) -> str:
    """Return the names of hosts, at ``most`` this many, with the remarks on each."""
    return listing([f"{host.identity}{_remark(host)}" for host in group], most)


def _remark(host: HostForecast) -> str:
    if host.absent:
        return " [absent]"
    return f" [{host.lease}]" if host.lease else ""


def outlook_reason(group: Sequence[HostForecast]) -> str:
    """Return the reason for the outlook of hosts with equal plans, in brackets; empty without one."""
    return f" ({group[0].reason})" if group[0].reason else ""

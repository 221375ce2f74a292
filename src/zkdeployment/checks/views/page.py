"""The page of checks, the worst finding first, and the part of checks on the page of a service."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.values import dataclass
from zkdeployment.checks.rules.findings import FINDING_WORDS, CheckFinding, CheckGroupState
from zkdeployment.service.views.frame import (
    ListPart,
    last_value,
    list_part,
    moment,
    page_number,
    search_text,
    with_query,
)
from zkdeployment.service.views.service import PageCell, PagePart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.checks.rules.listing import CheckSummary
    from zkdeployment.service.views.frame import Moment, Parameters

#: The number of checks on a page.
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class CheckFilterLink:
    """A link to the checks with one finding, and their number; a selected link leads back to all checks."""

    word: str
    count: int
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class SystemRow:
    """A monitoring system: its last contacts, and how many instances wait for it or have failed.

    ``is_silent`` is whether it reports nothing while checks are active.
    """

    name: str
    waiting: int
    failed: int
    is_silent: bool
    fetched: Moment | None
    reported: Moment | None


@dataclass(frozen=True, slots=True)
class ChecksView:
    """A page of the list of checks whose subject, host or detail contains ``text``.

    ``unwritten`` are the reasons for which check instances could not be written.
    """

    systems: tuple[SystemRow, ...]
    groups: tuple[CheckGroupState, ...]
    unwritten: tuple[str, ...]
    filters: tuple[CheckFilterLink, ...]
    part: ListPart[CheckFinding]
    state: str
    text: str


def checks_view(
    summary: CheckSummary, findings: Sequence[CheckFinding], parameters: Parameters, now: float
) -> ChecksView:
    """Return the page that the parameters of its address request."""
    state = last_value(parameters, "state")
    state, text = state if state in FINDING_WORDS else "", search_text(parameters)
    matching = [found for found in findings if _matches(found, text)] if text else findings
    counts = Counter(found.word for found in matching)
    shown = [found for found in matching if state in {"", found.word}]
    return ChecksView(
        systems=tuple(
            SystemRow(
                system.name,
                len(system.waiting),
                len(system.failed),
                system.unheard_since is not None,
                moment(system.fetched, now),
                moment(system.reported, now),
            )
            for system in summary.systems
        ),
        groups=summary.groups,
        unwritten=tuple(sorted({*summary.unwritten.values()})),
        filters=tuple(
            CheckFilterLink(word, counts[word], _address("" if word == state else word, text), word == state)
            for word in FINDING_WORDS
            if counts[word] or word == state
        ),
        part=list_part(shown, page_number(parameters), PAGE_SIZE, "", partial(_address, state, text)),
        state=state,
        text=text,
    )


def _matches(finding: CheckFinding, text: str) -> bool:
    return text.casefold() in f"{finding.subject} {finding.host} {finding.detail}".casefold()


def _address(state: str, text: str, page: int = 1) -> str:
    return with_query("/checks", {"state": state, "text": text, "page": str(page) if page > 1 else ""})


#: The tones of the words of findings; others are bad.
_TONES = {
    "ok": "good",
    "pending": "planned",
    "in maintenance": "planned",
    "warning": "halted",
    "unknown": "unknown",
}

_PART_COLUMNS = ("Check", "Host", "State", "Result", "Since the deployment")


def service_part(findings: Sequence[CheckFinding], deployed: Mapping[str, float]) -> tuple[PagePart, ...]:
    """Return the part with the findings on hosts; ``deployed`` are the times of deployments by host id."""
    rows = tuple(_part_row(finding, deployed.get(finding.instance.key.host)) for finding in findings)
    return (PagePart("service-checks", "Checks on these hosts", _PART_COLUMNS, rows),) if rows else ()


def _part_row(finding: CheckFinding, deployed: float | None) -> tuple[PageCell, ...]:
    return (
        PageCell(finding.subject),
        PageCell(finding.host),
        PageCell(finding.word, tone=_TONES.get(finding.word, "bad")),
        PageCell(finding.detail),
        PageCell(_comparison(finding, deployed)),
    )


def _comparison(finding: CheckFinding, deployed: float | None) -> str:
    """Return when the check came into its state, compared with the last deployment of the host."""
    result = finding.result
    if result is None or deployed is None:
        return "not known"
    if result.since <= deployed:
        ran = result.reported if result.checked is None else result.checked
        return "the same before and after" if ran > deployed else "from before; not checked since then"
    return f"changed {age(result.since - deployed)} after it"

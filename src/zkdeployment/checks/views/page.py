"""The page of checks: the monitoring systems, and the findings of the checks, the worst first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.checks.rules.overview import CheckSummary
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

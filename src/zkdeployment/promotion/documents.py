"""The documents of fleets of fleets: the fleets under promotion, and the groups in which they get a revision.

The groups have the form of a rollout strategy, with fleets as members instead of hosts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zkdeployment.base.errors import without_passwords
from zkdeployment.base.host import Facts
from zkdeployment.base.names import NameKind
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import TEXT, Fault, list_form, mapping_form, name_form, text_form
from zkdeployment.documents.kinds import DocumentKind
from zkdeployment.strategies.documents import (
    LABEL,
    STRATEGY,
    STRATEGY_DATA,
    WINDOW,
    label_from_value,
    strategy_faults,
    strategy_from_value,
    strategy_in_force,
    window_faults,
    window_from_json,
)
from zkdeployment.strategies.queries import variables_in
from zkdeployment.strategies.strategy import MemberKind, OnFailure, Strategy, Window, unmatched_selectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.yaml_values import Way
    from zkdeployment.publishing.places import ReviewRule

FLEETS_SCHEMA = "zkdeployment/Fleets/v1"
PROMOTION_SCHEMA = "zkdeployment/Promotion/v1"

#: The name of the strategy that the groups of a promotion form.
STRATEGY_NAME = "promotion"


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet under promotion: the branch that its syncer follows, and the URL of its service."""

    name: str
    branch: str
    service: str
    tags: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def facts(self) -> Facts:
        """The facts that selectors match, besides the name."""
        return Facts(tags=self.tags, labels=dict(self.labels))


@dataclass(frozen=True, slots=True)
class Fleets:
    """All fleets under promotion, in the order of their document."""

    fleets: tuple[Fleet, ...] = ()

    @property
    def by_name(self) -> Mapping[str, Fleet]:
        """The fleets by name."""
        return {fleet.name: fleet for fleet in self.fleets}


@dataclass(frozen=True, slots=True)
class Freeze:
    """A time without promotions, from ``start`` until ``end``, in seconds since the epoch."""

    start: float
    end: float
    reason: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """The groups of fleets as a strategy, and the times at which no promotion begins or continues."""

    strategy: Strategy
    freezes: tuple[Freeze, ...] = ()
    windows: tuple[Window, ...] = ()


_BRANCH = text_form(
    r"^(?![-/.])(?!.*(\.\.|@\{|//|/\.|\.lock(/|$)|[/.]$))[^\x00-\x20\x7f~^:?*\[\\]+$",
    "the name of a branch, as in fleets/eu-1",
)
_SERVICE = text_form(
    r"^https?://[^\s/?#]+(/[^\s?#]*)?$",
    "the URL of the fleet's service, as in https://deploy.eu-1.example.com",
)
_FLEET = mapping_form(
    {"name": name_form(NameKind.PLAIN), "branch": _BRANCH, "service": _SERVICE},
    {
        "tags": list_form(name_form(NameKind.TEXT), "a list of tags"),
        "labels": list_form(LABEL, "a list of labels, as in ['region: eu']"),
    },
)
_FLEETS_FORM = mapping_form(
    {
        "data": mapping_form(
            {"fleets": list_form(_FLEET, "a list of at least one fleet", minItems=1, maxItems=1000)}, {}
        )
    },
    {"schema": {}},
)

_MOMENT = text_form(
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$",
    "a day, or a day and a time, as in 2026-12-24 or 2026-12-24 18:00",
)
_FREEZE = mapping_form({"from": _MOMENT, "to": _MOMENT, "reason": TEXT}, {"zone": name_form(NameKind.TEXT)})
_PROMOTION_FORM = mapping_form(
    {
        "data": {
            **STRATEGY_DATA,
            "properties": {
                **STRATEGY_DATA["properties"],
                "freezes": list_form(_FREEZE, "a list of freezes, each with from, to and reason"),
                "windows": list_form(WINDOW, "a list of windows", minItems=1),
            },
        }
    },
    {"schema": {}},
)

_NO_ROLLBACK = (
    "a promotion cannot roll back by itself, because a promoter makes no commits; use on_failure: stop, and"
    " roll back with 'zkdeployment promote rollback'"
)

#: The variables of queries that have no value in a promotion.
_HOSTS_ONLY = ("instances", "service", "others")


def _fleets_faults(value: Any) -> Iterator[Fault]:
    """Yield a fault for each name or branch that cannot belong to one fleet, and for each impossible URL."""
    fleets = value["data"]["fleets"]
    for key in ("name", "branch"):
        times = Counter(fleet[key] for fleet in fleets)
        for number, fleet in enumerate(fleets):
            if times[fleet[key]] > 1:
                message = f"there are {times[fleet[key]]} fleets with the {key} {fleet[key]}; expected one"
                yield ("data", "fleets", number, key), message
    branches = {fleet["branch"] for fleet in fleets}
    for number, fleet in enumerate(fleets):
        for parent in sorted(branches.intersection(map(str, PurePosixPath(fleet["branch"]).parents))):
            message = f"git cannot have the branch {fleet['branch']} beside {parent}; rename one of them"
            yield ("data", "fleets", number, "branch"), message
        way = ("data", "fleets", number, "service")
        if without_passwords(fleet["service"]) != fleet["service"]:
            yield way, "the URL contains a password; write it without one"
        elif not _has_host(fleet["service"]):
            yield way, f"expected a URL with a host and a valid port, found {fleet['service']!r}"


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except ValueError:
        return False


def _fleets(value: Any) -> Fleets:
    return Fleets(
        tuple(
            Fleet(
                name=fleet["name"],
                branch=fleet["branch"],
                service=fleet["service"].rstrip("/"),
                tags=frozenset(fleet.get("tags", ())),
                labels=tuple(label_from_value(label) for label in fleet.get("labels", ())),
            )
            for fleet in value["data"]["fleets"]
        )
    )


def _promotion_faults(value: Any) -> Iterator[Fault]:
    """Yield the faults of the groups, of freezes and windows, and of what a promoter cannot do."""
    data = value["data"]
    yield from strategy_faults(data["groups"])
    if data.get("on_failure") == OnFailure.ROLLBACK.value:
        yield ("data", "on_failure"), _NO_ROLLBACK
    for number, group in enumerate(data["groups"]):
        yield from _host_faults(("data", "groups", number), group)
    for number, window in enumerate(data.get("windows", ())):
        yield from window_faults(("data", "windows", number), window)
    for number, freeze in enumerate(data.get("freezes", ())):
        yield from _freeze_faults(("data", "freezes", number), freeze)


def _host_faults(way: Way, group: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each part of a group that concerns hosts, which a promoter does not know."""
    if group.get("healthy_checks"):
        yield (
            (*way, "healthy_checks"),
            "a promoter does not know the checks of a fleet; use healthy_checks in the fleet's own strategy",
        )
    for number, metric in enumerate(group.get("analysis", ())):
        for variable in sorted(variables_in(metric["query"]).intersection(_HOSTS_ONLY)):
            message = (
                f"${variable} has no value in a promotion, which does not know hosts and instances; select by"
                " $hosts, the names of fleets, or by $revision"
            )
            yield (*way, "analysis", number, "query"), message


def _freeze_faults(way: Way, freeze: Mapping[str, Any]) -> Iterator[Fault]:
    try:
        found = _freeze(freeze)
    except (ValueError, KeyError, OSError, OverflowError) as error:
        yield way, f"expected existing days and times, and a time zone as in Europe/Berlin: {error}"
        return
    if found.end <= found.start:
        yield way, "the freeze ends before it begins; expected 'to' after 'from'"


def _freeze(value: Mapping[str, Any]) -> Freeze:
    zone = value.get("zone", "UTC")
    return Freeze(_moment(value["from"], zone), _moment(value["to"], zone, is_end=True), value["reason"])


def _moment(text: str, zone: str, *, is_end: bool = False) -> float:
    """Return a time in seconds since the epoch; the end of a day without a time is the begin of the next day."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415  programs start faster without it

    if len(text) > len("2026-12-24"):
        moment = datetime.fromisoformat(text)
    else:
        moment = datetime.combine(date.fromisoformat(text), datetime.min.time())
        moment += timedelta(days=1 if is_end else 0)
    return moment.replace(tzinfo=ZoneInfo(zone)).timestamp()


def _promotion(value: Any) -> Promotion:
    data = value["data"]
    strategy = strategy_from_value({"metadata": {"name": STRATEGY_NAME}, "data": data})
    return Promotion(
        replace(strategy, member_kind=MemberKind.FLEET),
        tuple(_freeze(freeze) for freeze in data.get("freezes", ())),
        tuple(window_from_json(window) for window in data.get("windows", ())),
    )


FLEETS: DocumentKind[Fleets] = DocumentKind(
    name="fleets",
    schema=FLEETS_SCHEMA,
    form=_FLEETS_FORM,
    parse=_fleets,
    subject=lambda _: (),
    place=(),
    faults=_fleets_faults,
)

PROMOTION: DocumentKind[Promotion] = DocumentKind(
    name="promotion",
    schema=PROMOTION_SCHEMA,
    form=_PROMOTION_FORM,
    parse=_promotion,
    subject=lambda _: (),
    place=(),
    faults=_promotion_faults,
)

DOCUMENT_KINDS: tuple[DocumentKind[Any], ...] = (FLEETS, PROMOTION)


def promotion_in_force(documents: Documents) -> tuple[Fleets, Promotion] | None:
    """Return the fleets of a revision and their promotion; ``None`` unless it has both."""
    fleets, promotion = documents.of(FLEETS).get(()), documents.of(PROMOTION).get(())
    return None if fleets is None or promotion is None else (fleets, promotion)


def judge_promotion(documents: Documents) -> Documents:
    """Return valid documents with the error of a promotion without fleets.

    Fleets without a promotion are no error, so that people can add one document after the other.
    """
    promotion = documents.entries.get((PROMOTION.name, ()))
    if promotion is None or documents.of(FLEETS):
        return documents
    message = "a promotion needs fleets; add a document with schema: zkdeployment/Fleets/v1"
    return replace(documents, problems=(*documents.problems, promotion.problem(("data",), message)))


def promotion_warnings(documents: Documents) -> Iterator[Problem]:
    """Yield a warning for each selector that matches no fleet, and for a strategy that rolls back by itself."""
    fleets = documents.of(FLEETS).get(())
    if fleets is None:
        return
    promotion = documents.entries.get((PROMOTION.name, ()))
    if promotion is not None:
        facts = {fleet.name: fleet.facts for fleet in fleets.fleets}
        for message in unmatched_selectors(promotion.value.strategy, facts):
            yield replace(promotion.problem(("data", "groups"), message), severity=Severity.WARNING)
    strategy = strategy_in_force(documents)
    entry = None if strategy is None else documents.entries.get((STRATEGY.name, (strategy.name,)))
    if strategy is not None and entry is not None and strategy.on_failure is OnFailure.ROLLBACK:
        message = (
            f"strategy {strategy.name} rolls back by itself with a commit on the fleet's branch, which then is not"
            " part of the main branch: nothing more can be promoted to that fleet until an operator resets its"
            " branch; use on_failure: stop, and roll back with 'zkdeployment promote rollback'"
        )
        yield replace(entry.problem(("data", "on_failure"), message), severity=Severity.WARNING)


DOCUMENT_RULES: tuple[Callable[[Documents], Documents], ...] = (judge_promotion,)

REVIEW_RULES: tuple[ReviewRule, ...] = (lambda documents, _tree, _targets: promotion_warnings(documents),)

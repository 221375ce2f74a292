"""The installed features, and the places that the frames offer them.

A frame, such as the documents, the service or the verbs, asks here what the features add to it. No feature knows
another one, and no frame knows a feature: ``programs`` has the list.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fastapi import APIRouter

    from zkdeployment.base.daemon.metrics import Metric
    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.fleet.feed.fleet_assembly import FeedPart, FleetReading
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.publishing.rules.review import ReviewRule
    from zkdeployment.publishing.section import PublicationSection
    from zkdeployment.service.act import PlannedAct
    from zkdeployment.zookeeper.session import Session


def _nothing() -> tuple[()]:
    return ()


def _no_entries() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The contributions of a feature to the frames.

    Each place is a function, which imports what it returns: a program loads only the parts of the features that it
    uses. ``document_kinds`` are the kinds of documents beside the tree. ``document_rules`` receive documents that
    are valid each by itself, and return them with the problems that they have together. ``review_rules`` receive
    the documents with the tree beside them, and return further problems. ``publication_section`` is what the
    feature adds to publications; ``None`` if that is nothing. ``feed_parts`` are the parts of the readings of the
    fleet, with their events. ``alarms`` reads what the monitor of the fleet judges, at a time in seconds since the
    epoch, and returns the function that judges it. ``metrics`` returns the metrics of a reading for the service.
    ``acts`` are acts with a form, or with an operation below ``/api/v1``. ``api_routers`` are the other operations
    of the API that need a login, ``page_routers`` the pages of the service, and ``service_state`` what the service
    keeps for them, by the names of attributes of the application's state. ``verbs`` are the verbs of the command
    line, by name.
    """

    document_kinds: Callable[[], Sequence[DocumentKind[Any]]] = _nothing
    document_rules: Callable[[], Sequence[Callable[[Documents], Documents]]] = _nothing
    review_rules: Callable[[], Sequence[ReviewRule]] = _nothing
    publication_section: Callable[[], PublicationSection | None] = lambda: None
    feed_parts: Callable[[], Sequence[FeedPart[Any]]] = _nothing
    alarms: Callable[[Session, float], JudgeAlarms] | None = None
    metrics: Callable[[FleetReading], Iterable[Metric]] | None = None
    acts: Callable[[], Sequence[type[PlannedAct[Any]]]] = _nothing
    api_routers: Callable[[], Sequence[APIRouter]] = _nothing
    page_routers: Callable[[], Sequence[APIRouter]] = _nothing
    service_state: Callable[[], Mapping[str, Any]] = _no_entries
    verbs: Callable[[], Mapping[str, LazyVerb]] = _no_entries


_names: tuple[str, ...] = ()


def install(names: Sequence[str]) -> None:
    """Make these capabilities the installed features: each has a module ``feature`` with the value ``FEATURE``."""
    global _names  # noqa: PLW0603  one list for the process, as the modules that it names
    _names = tuple(names)
    installed.cache_clear()


@cache
def installed() -> tuple[Feature, ...]:
    """Return the installed features in their order; raises ``RuntimeError`` if ``install`` was not called."""
    if not _names:
        raise RuntimeError("no features are installed: import zkdeployment.programs first")
    return tuple(importlib.import_module(f"zkdeployment.{name}.feature").FEATURE for name in _names)

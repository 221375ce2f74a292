"""The installed features, and the places that the frames offer them.

A frame, such as the documents, the service or the verbs, reads here the contributions of the features. Features do
not know each other, and frames do not know the features: ``programs`` has the list.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment import base

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fastapi import APIRouter

    from zkdeployment.agent.adapters import HostLeases
    from zkdeployment.base.act import Act
    from zkdeployment.base.daemon.metrics import Metric
    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.config.settings import Settings
    from zkdeployment.documents.collection import Documents
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.fleet.explanations.explanation import HostFinding
    from zkdeployment.fleet.feed.fleet_assembly import FeedPart, FleetReading
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.fleet.views.forecast import PlanAddition, Prediction, PredictionBasis
    from zkdeployment.publishing.rules.review import Review, ReviewRule
    from zkdeployment.publishing.section import PublicationSection
    from zkdeployment.service.act import PlannedAct
    from zkdeployment.service.daemon import ServicePart
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.pages.services import ServiceVisit
    from zkdeployment.service.users.user import User
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.service.views.service import PagePart
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.zookeeper.session import Session

    FindOnHosts = Callable[[OperatorAdapters, Collection[str], float, str | None], Sequence[HostFinding]]


def _nothing() -> tuple[()]:
    return ()


def _accept(_settings: Settings) -> None:
    """Find no mistake in the settings."""


def _no_parts(_adapters: ServerAdapters) -> tuple[()]:
    return ()


def _no_page_parts(_visit: ServiceVisit) -> tuple[()]:
    return ()


def _no_concern(_operator: OperatorAdapters, _user: User, _users: ZooKeeperUsers, _act: Act) -> None:
    return None


def _no_entries() -> Mapping[str, Any]:
    return {}


class Feature(NamedTuple):
    """The contributions of a feature to the frames.

    Each place is a function, which imports what it returns: a program loads only the parts of the features that it
    uses.
    """

    #: The kinds of documents beside the tree.
    document_kinds: Callable[[], Sequence[DocumentKind[Any]]] = _nothing
    #: Receive documents that are valid each by itself, and return them with the problems that they have together.
    document_rules: Callable[[], Sequence[Callable[[Documents], Documents]]] = _nothing
    #: Receive the documents with the tree beside them, and return further problems.
    review_rules: Callable[[], Sequence[ReviewRule]] = _nothing
    #: The part of the feature in publications; ``None`` without one.
    publication_section: Callable[[], PublicationSection | None] = lambda: None
    #: Raises ``ConfigurationError`` for a key or a file of the configuration that the feature cannot use.
    check_settings: Callable[[Settings], object] = _accept
    #: Makes a success criterion of rollouts that waits for something outside of them. The third argument returns
    #: the node by which the coordinator leads, the last one wakes the coordinator.
    criterion: (
        Callable[[Settings, Session, Callable[[], str | None], Callable[[], None]], OutsideCriterion] | None
    ) = None
    #: The functions of an agent whose host can be leased.
    host_leases: Callable[[], HostLeases] | None = None
    #: Returns what the feature adds to the plan of a publication.
    plan_addition: Callable[[Review, PredictionBasis, Prediction], PlanAddition] | None = None
    #: The parts of the readings of the fleet, with their events.
    feed_parts: Callable[[], Sequence[FeedPart[Any]]] = _nothing
    #: Reads the facts for the monitor of the fleet, at a time in seconds since the epoch, and returns the function
    #: that judges them.
    alarms: Callable[[Session, float], JudgeAlarms] | None = None
    #: Returns the metrics of a reading of the fleet, for the service.
    metrics: Callable[[FleetReading], Iterable[Metric]] | None = None
    #: Acts with a form, or with an operation below ``/api/v1``.
    acts: Callable[[], Sequence[type[PlannedAct[Any]]]] = _nothing
    #: The other operations of the API that need a login, and the pages of the service.
    api_routers: Callable[[], Sequence[APIRouter]] = _nothing
    page_routers: Callable[[], Sequence[APIRouter]] = _nothing
    #: Values that the service keeps for these routers, by the names of attributes of the application's state.
    service_state: Callable[[], Mapping[str, Any]] = _no_entries
    #: Threads of the service, which run in the background.
    service_parts: Callable[[ServerAdapters], Sequence[ServicePart]] = _no_parts
    #: The findings on hosts (by id), the worst first; with a path, only those about one service. The time is in
    #: seconds since the epoch. The body describes a finding in the API.
    host_findings: FindOnHosts | None = None
    finding_body: Callable[[], Any] | None = None
    #: Parts of the page of a service.
    service_page: Callable[[ServiceVisit], Sequence[PagePart]] = _no_page_parts
    #: Retires a user together with what only the feature knows of the user, and returns warnings; ``None`` for a
    #: user that is not its concern.
    retire_user: Callable[[OperatorAdapters, User, ZooKeeperUsers, Act], Sequence[str] | None] = _no_concern
    #: The verbs of the command line, by name.
    verbs: Callable[[], Mapping[str, LazyVerb]] = _no_entries


def value_in(module: str, name: str) -> Callable[[], Any]:
    """Return a place with a value of a module, which is imported when the place is first needed."""
    return lambda: getattr(importlib.import_module(f"zkdeployment.{module}"), name)


def function_in(module: str, name: str) -> Callable[..., Any]:
    """Return a place with a function of a module, which is imported at the first call."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(f"zkdeployment.{module}"), name)(*arguments)

    return call


def install(names: Sequence[str]) -> None:
    """Make these capabilities the installed features: each has a module ``feature`` with the value ``FEATURE``."""
    base.installed_features = tuple(names)
    installed.cache_clear()


@cache
def installed() -> tuple[Feature, ...]:
    """Return the installed features in their order; raises ``RuntimeError`` if a program installed none."""
    names = base.installed_features
    if not names:
        raise RuntimeError("no features are installed: import zkdeployment.programs first")
    return tuple(importlib.import_module(f"zkdeployment.{name}.feature").FEATURE for name in names)

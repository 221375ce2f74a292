"""The places of the service, which features fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fastapi import APIRouter

    from zkdeployment.base.act import Act
    from zkdeployment.base.daemon.metrics import Metric
    from zkdeployment.fleet.feed.fleet_assembly import FleetReading
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.act import PlannedAct
    from zkdeployment.service.daemon import ServicePart
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.pages.services import ServiceVisit
    from zkdeployment.service.users.user import TenantLimits, User
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.service.views.frame import MainPage
    from zkdeployment.service.views.service import PagePart
    from zkdeployment.zookeeper.session import Session


@dataclass(frozen=True, kw_only=True)
class ServicePlaces:
    """The contributions of a feature to the service."""

    #: Acts with a form, or with an operation below ``/api/v1``.
    acts: Callable[[], Sequence[type[PlannedAct[Any]]]] = tuple
    #: The other operations of the API that need a login, and the pages of the service.
    api_routers: Callable[[], Sequence[APIRouter]] = tuple
    page_routers: Callable[[], Sequence[APIRouter]] = tuple
    #: The pages among them that have a tab.
    main_pages: Callable[[], Sequence[MainPage]] = tuple
    #: Packages with a folder ``templates`` for these pages.
    template_packages: tuple[str, ...] = ()
    #: Values that the service keeps for these routers, by the names of attributes of the application's state.
    state: Callable[[], Mapping[str, Any]] = dict
    #: Threads of the service, which run in the background.
    parts: Callable[[ServerAdapters], Sequence[ServicePart]] = lambda _adapters: ()
    #: Returns the metrics of a reading of the fleet.
    metrics: Callable[[FleetReading], Iterable[Metric]] = lambda _reading: ()
    #: The class that describes the feature's findings on hosts in the API.
    finding_body: Callable[[], Any] | None = None
    #: The name of the feature's addition to a plan, and the class that describes it in the API.
    plan_body: Callable[[], tuple[str, Any]] | None = None
    #: Reads the published limits of tenants without limits of their own.
    tenant_limits: Callable[[Session], TenantLimits] | None = None
    #: Parts of the page of a service.
    service_page: Callable[[ServiceVisit], Sequence[PagePart]] = lambda _visit: ()
    #: Retires a user together with what only the feature knows of the user, and returns warnings; ``None`` for a
    #: user that is not its concern.
    retire_user: Callable[[OperatorAdapters, User, ZooKeeperUsers, Act], Sequence[str] | None] = (
        lambda _operator, _user, _users, _act: None
    )

"""The contributions of host pools to the frames."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastapi import APIRouter

    from zkdeployment.agent.adapters import HostLeases
    from zkdeployment.base.act import Act
    from zkdeployment.base.daemon.metrics import Metric
    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.config.settings import Settings
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.fleet.feed.fleet_assembly import FeedPart, FleetReading
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.service.daemon import ServicePart
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import User
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.zookeeper.session import Session


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.pools.documents import POOLS

    return (POOLS,)


def _api_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.pools import api

    return api.usage_router, api.pools_router, api.sessions_router, api.tenants_router


def _page_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.pools import pages

    return pages.router, pages.usage_router, pages.acts_router


def _service_state() -> Mapping[str, Any]:
    from zkdeployment.pools.service_requests import SessionRequests

    return {"page_requests": SessionRequests()}


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "node": LazyVerb("pools.verbs.groups", "Show and change the nodes of host pools.", "node"),
        "pool": LazyVerb("pools.verbs.groups", "Show and fill host pools.", "pool"),
        "pools": LazyVerb("pools.verbs.groups", "Run a worker of host pools in the foreground.", "pools"),
        "session": LazyVerb("pools.verbs.groups", "Lease nodes of host pools to tenants.", "session"),
    }


def _feed_parts() -> tuple[FeedPart[Any], ...]:
    from zkdeployment.pools.feed import POOLS_PART

    return (POOLS_PART,)


def _alarms(session: Session, _now: float) -> JudgeAlarms:
    from zkdeployment.pools.rules.alarms import pool_alarms
    from zkdeployment.pools.rules.overview import pools_status
    from zkdeployment.pools.store.store import ZooKeeperPools

    store = ZooKeeperPools(session)
    return partial(pool_alarms, pools_status(store.configuration(), store.read()))


def _metrics(reading: FleetReading) -> Iterable[Metric]:
    from zkdeployment.pools.feed import POOLS_PART, pool_metrics

    return pool_metrics(reading.of(POOLS_PART))


def _check_settings(settings: Settings) -> None:
    from zkdeployment.pools.program import lease_signer

    lease_signer(settings)


def _host_leases() -> HostLeases:
    from zkdeployment.pools.host.leases import HOST_LEASES

    return HOST_LEASES


def _service_parts(adapters: ServerAdapters) -> Sequence[ServicePart]:
    from zkdeployment.pools.daemon.session_warnings import SessionWarnings
    from zkdeployment.pools.opening import pool_adapters_of

    pools = pool_adapters_of(adapters)
    return (SessionWarnings(adapters.feed, pools.store, pools.clock),)


def _retire_user(operator: OperatorAdapters, user: User, users: ZooKeeperUsers, act: Act) -> Sequence[str] | None:
    from zkdeployment.pools.acts.sessions import retire_tenant
    from zkdeployment.pools.opening import pool_adapters

    if not user.is_tenant:
        return None
    retire_tenant(user, users, operator.of(pool_adapters), act)
    return ()


FEATURE = Feature(
    service_parts=_service_parts,
    retire_user=_retire_user,
    host_leases=_host_leases,
    check_settings=_check_settings,
    document_kinds=_document_kinds,
    api_routers=_api_routers,
    page_routers=_page_routers,
    service_state=_service_state,
    verbs=_verbs,
    feed_parts=_feed_parts,
    alarms=_alarms,
    metrics=_metrics,
)

"""The contributions of host pools to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.documents.kinds import DocumentKind


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.pools.documents.kinds import POOLS

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
        "pools": LazyVerb("programs.daemon_verbs", "Run a worker of host pools in the foreground.", "pools"),
        "session": LazyVerb("pools.verbs.groups", "Lease nodes of host pools to tenants.", "session"),
    }


FEATURE = Feature(
    document_kinds=_document_kinds,
    api_routers=_api_routers,
    page_routers=_page_routers,
    service_state=_service_state,
    verbs=_verbs,
)

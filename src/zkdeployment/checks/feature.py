"""The contributions of checks to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.documents.kinds import DocumentKind


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.checks.documents.groups import CHECK_GROUP
    from zkdeployment.checks.documents.kinds import CHECK, SYSTEM
    from zkdeployment.checks.documents.on_call import ON_CALL

    return SYSTEM, CHECK, CHECK_GROUP, ON_CALL


def _api_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.checks.api import checks, deployments

    return checks.router, deployments.router


def _page_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.checks import pages

    return (pages.router,)


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "checks": LazyVerb("checks.verbs.checks", "Show and change checks, the monitoring of services."),
        "nagios": LazyVerb("programs.daemon_verbs", "Run the bridge of a Nagios in the foreground.", "nagios"),
    }


FEATURE = Feature(
    document_kinds=_document_kinds, api_routers=_api_routers, page_routers=_page_routers, verbs=_verbs
)

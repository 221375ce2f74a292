"""The contributions of providers to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import APIRouter

    from zkdeployment.cli.verb_group import LazyVerb


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "filter": LazyVerb(
            "providers.filter", "Run a filter: keep a list of the instances in service.", "filter_instances"
        ),
        "provide": LazyVerb(
            "providers.verbs", "Register an instance of a service while a command runs.", "provide"
        ),
        "providers": LazyVerb(
            "providers.verbs", "Show the instances of a service that are in service.", "providers"
        ),
    }


def _api_routers() -> Sequence[APIRouter]:
    from zkdeployment.providers.api import router

    return (router,)


def _service_state() -> Mapping[str, Any]:
    from zkdeployment.providers.api import RememberedTargets

    return {"remembered_targets": RememberedTargets()}


FEATURE = Feature(verbs=_verbs, api_routers=_api_routers, service_state=_service_state)

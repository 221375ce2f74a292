"""The contributions of deployment intents to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.fleet.feed.fleet_assembly import FeedPart
    from zkdeployment.publishing.rules.review import ReviewRule
    from zkdeployment.publishing.section import PublicationSection
    from zkdeployment.service.act import PlannedAct


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.intents.documents.kinds import CLUSTER, GROUP, RELEASE

    return GROUP, CLUSTER, RELEASE


def _review_rules() -> tuple[ReviewRule, ...]:
    from zkdeployment.intents.rules.governance import coverage_problems, intent_problems

    return intent_problems, coverage_problems


def _publication_section() -> PublicationSection:
    from zkdeployment.intents.section import SECTION

    return SECTION


def _acts() -> tuple[type[PlannedAct[Any]], ...]:
    from zkdeployment.intents.user_acts import ACTS

    return ACTS


def _api_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.intents import api

    return api.clusters_router, api.releases_router, api.groups_router, api.intents_router


def _page_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.intents import pages

    return (pages.router,)


def _service_state() -> Mapping[str, Any]:
    from zkdeployment.intents.requests import IntentResources

    return {"intent_resources": IntentResources()}


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {"intent": LazyVerb("intents.verbs.intent", "Approve, instantiate and terminate groups of services.")}


def _feed_parts() -> tuple[FeedPart[Any], ...]:
    from zkdeployment.intents.feed import INTENTS_PART

    return (INTENTS_PART,)


FEATURE = Feature(
    document_kinds=_document_kinds,
    review_rules=_review_rules,
    publication_section=_publication_section,
    acts=_acts,
    api_routers=_api_routers,
    page_routers=_page_routers,
    service_state=_service_state,
    verbs=_verbs,
    feed_parts=_feed_parts,
)

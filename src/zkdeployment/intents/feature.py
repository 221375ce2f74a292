"""The contributions of deployment intents to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.fleet.decisions import DecisionPlaces
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.publishing.daemon.places import SyncerPlaces
from zkdeployment.publishing.places import PublishingPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "intents",
    (
        DocumentPlaces(kinds=value_in(".intents.documents", "DOCUMENT_KINDS")),
        PublishingPlaces(
            review_rules=value_in(".intents.rules.governance", "REVIEW_RULES"),
            section=value_in(".intents.section", "SECTION"),
        ),
        SyncerPlaces(keeper=function_in(".intents.daemon", "intent_keeper")),
        FleetPlaces(
            feed_parts=value_in(".intents.feed", "FEED_PARTS"),
            governing_records=function_in(".intents.feed", "governing_records"),
        ),
        DecisionPlaces(
            directory=value_in(".intents.store", "INTENTS"),
            is_used=lambda published: bool(published.intents),
            decide=function_in(".intents.store", "decision_of"),
        ),
        ServicePlaces(
            acts=value_in(".intents.user_acts", "ACTS"),
            api_routers=value_in(".intents.api", "ROUTERS"),
            page_routers=value_in(".intents.pages", "ROUTERS"),
            main_pages=value_in(".intents.pages", "MAIN_PAGES"),
            template_packages=("zkdeployment.intents",),
            service_page=function_in(".intents.pages", "service_page"),
            state=function_in(".intents.pages", "service_state"),
        ),
        VerbPlaces(
            {
                "intent": LazyVerb(
                    ".intents.verbs.intent",
                    "Approve, instantiate and terminate groups of services.",
                    subject=Subject.SERVICES,
                )
            }
        ),
    ),
)

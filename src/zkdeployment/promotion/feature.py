"""The contributions of promotion to the frames."""

from zkdeployment.base.features import Feature, value_in
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.publishing.places import PublishingPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "promotion",
    (
        SettingsPlaces(sections=value_in(".promotion.settings", "SECTIONS")),
        DocumentPlaces(
            kinds=value_in(".promotion.documents", "DOCUMENT_KINDS"),
            rules=value_in(".promotion.documents", "DOCUMENT_RULES"),
        ),
        PublishingPlaces(review_rules=value_in(".promotion.documents", "REVIEW_RULES")),
        FleetPlaces(feed_parts=value_in(".promotion.feed", "FEED_PARTS")),
        ServicePlaces(
            acts=value_in(".promotion.user_acts", "ACTS"),
            api_routers=value_in(".promotion.api", "ROUTERS"),
            page_routers=value_in(".promotion.pages", "ROUTERS"),
            main_pages=value_in(".promotion.pages", "MAIN_PAGES"),
            template_packages=("zkdeployment.promotion",),
        ),
        VerbPlaces(
            {
                "fleets": LazyVerb(
                    ".promotion.verbs.fleets",
                    "Show all fleets under promotion; stop and resume them.",
                    subject=Subject.ROLLOUTS,
                ),
                "promote": LazyVerb(
                    ".promotion.verbs.groups",
                    "Promote revisions from fleet to fleet.",
                    "promote",
                    Subject.ROLLOUTS,
                ),
            }
        ),
    ),
)

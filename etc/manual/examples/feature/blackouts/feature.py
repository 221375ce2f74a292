"""The contributions of blackouts to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, LeaderPlaces, VerbPlaces
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "blackouts",
    (
        DocumentPlaces(kinds=value_in("blackouts.documents", "DOCUMENT_KINDS")),
        LeaderPlaces(function_in("blackouts.criterion", "blackout_criterion")),
        ServicePlaces(
            page_routers=value_in("blackouts.pages", "ROUTERS"),
            main_pages=value_in("blackouts.pages", "MAIN_PAGES"),
            template_packages=("blackouts",),
        ),
        VerbPlaces({"blackouts": LazyVerb("blackouts.verbs", "Show the blackouts of rollouts.")}),
    ),
)

"""The contributions of checks to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, LeaderPlaces, Subject, VerbPlaces
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.publishing.places import PublishingPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "checks",
    (
        SettingsPlaces(sections=value_in(".checks.settings", "SECTIONS")),
        DocumentPlaces(kinds=value_in(".checks.documents", "DOCUMENT_KINDS")),
        PublishingPlaces(review_rules=value_in(".checks.documents", "REVIEW_RULES")),
        LeaderPlaces(function_in(".checks.daemon", "check_criterion")),
        FleetPlaces(
            feed_parts=value_in(".checks.feed", "FEED_PARTS"),
            plan_addition=function_in(".checks.views.wanted", "plan_addition"),
            alarms=function_in(".checks.opening", "alarms"),
            host_findings=function_in(".checks.opening", "host_findings"),
        ),
        ServicePlaces(
            api_routers=value_in(".checks.api", "ROUTERS"),
            page_routers=value_in(".checks.pages", "ROUTERS"),
            main_pages=value_in(".checks.pages", "MAIN_PAGES"),
            template_packages=("zkdeployment.checks",),
            service_page=function_in(".checks.pages", "service_page"),
            finding_body=value_in(".checks.rules.listing", "CheckInstanceView"),
            plan_body=value_in(".checks.models", "PLAN_BODY"),
            retire_user=function_in(".checks.opening", "retire_monitoring"),
        ),
        VerbPlaces(
            {
                "checks": LazyVerb(
                    ".checks.verbs.checks",
                    "Show and change checks, the monitoring of services.",
                    subject=Subject.SERVICES,
                ),
                "nagios": LazyVerb(
                    ".checks.program", "Run the bridge of a Nagios in the foreground.", "nagios", Subject.DAEMONS
                ),
            }
        ),
    ),
)

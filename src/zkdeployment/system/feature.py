"""The contributions of the view of operating systems to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "system",
    (
        SettingsPlaces(sections=value_in(".system.alarms", "SECTIONS")),
        FleetPlaces(
            alarms=function_in(".system.opening", "alarms"),
            plan_addition=function_in(".system.rules", "plan_addition"),
        ),
        ServicePlaces(
            api_routers=value_in(".system.api", "ROUTERS"),
            page_routers=value_in(".system.pages", "ROUTERS"),
            main_pages=value_in(".system.pages", "MAIN_PAGES"),
            template_packages=("zkdeployment.system",),
            plan_body=value_in(".system.models", "PLAN_BODY"),
        ),
        VerbPlaces(
            {
                "system": LazyVerb(
                    ".system.verbs",
                    "Show the release, the kernel and a due reboot of each host.",
                    "system",
                    Subject.SEE,
                ),
            }
        ),
    ),
)

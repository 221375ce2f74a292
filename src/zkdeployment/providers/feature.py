"""The contributions of providers to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "providers",
    (
        SettingsPlaces(sections=value_in(".providers.settings", "SECTIONS")),
        ServicePlaces(
            api_routers=value_in(".providers.api", "ROUTERS"), state=function_in(".providers.api", "service_state")
        ),
        VerbPlaces(
            {
                "filter": LazyVerb(
                    ".providers.filter",
                    "Run a filter: keep a list of the instances in service.",
                    "filter_instances",
                    Subject.DAEMONS,
                ),
                "provide": LazyVerb(
                    ".providers.verbs",
                    "Register an instance of a service while a command runs.",
                    "provide",
                    Subject.SERVICES,
                ),
                "providers": LazyVerb(
                    ".providers.verbs",
                    "Show the instances of a service that are in service.",
                    "providers",
                    Subject.SERVICES,
                ),
            }
        ),
    ),
)

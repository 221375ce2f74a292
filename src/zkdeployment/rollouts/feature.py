"""The contributions of rollouts to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, LeaderPlaces, Subject, VerbPlaces
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "rollouts",
    (
        SettingsPlaces(sections=value_in(".rollouts.settings", "SECTIONS")),
        LeaderPlaces(function_in(".rollouts.measuring", "analysis_criterion")),
        ServicePlaces(
            acts=value_in(".rollouts.acts", "ACTS"),
            page_routers=value_in(".rollouts.pages", "ROUTERS"),
            main_pages=value_in(".rollouts.pages", "MAIN_PAGES"),
            template_packages=("zkdeployment.rollouts",),
        ),
        VerbPlaces(
            {
                "coordinate": LazyVerb(
                    ".rollouts.program",
                    "Run a coordinator of rollouts in the foreground.",
                    "coordinate",
                    Subject.DAEMONS,
                ),
                "rollout": LazyVerb(
                    ".rollouts.verbs",
                    "Simulate, watch and direct rollouts by a strategy.",
                    subject=Subject.ROLLOUTS,
                ),
            }
        ),
    ),
)

"""The contributions of the service to the frames."""

from zkdeployment.base.features import Feature, value_in
from zkdeployment.config.places import SettingsPlaces

FEATURE = Feature("service", (SettingsPlaces(sections=value_in(".service.settings", "SECTIONS")),))

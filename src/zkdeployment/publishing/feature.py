"""The contributions of publications to the frames."""

from zkdeployment.base.features import Feature, value_in
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.documents.places import DocumentPlaces

FEATURE = Feature(
    "publishing",
    (
        SettingsPlaces(sections=value_in(".publishing.settings", "SECTIONS")),
        DocumentPlaces(kinds=value_in(".publishing.rules.quarantines", "DOCUMENT_KINDS")),
    ),
)

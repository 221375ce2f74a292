"""The contributions of rollout strategies to the frames."""

from zkdeployment.base.features import Feature, value_in
from zkdeployment.documents.places import DocumentPlaces

FEATURE = Feature(
    "strategies",
    (
        DocumentPlaces(
            kinds=value_in(".strategies.documents", "DOCUMENT_KINDS"),
            rules=value_in(".strategies.documents", "DOCUMENT_RULES"),
        ),
    ),
)

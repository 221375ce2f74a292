"""The contributions of publications to the frames."""

from zkdeployment.base.features import Feature, value_in
from zkdeployment.documents.places import DocumentPlaces

FEATURE = Feature(
    "publishing",
    (DocumentPlaces(kinds=value_in(".publishing.rules.quarantines", "DOCUMENT_KINDS")),),
)

"""The contributions of promotion to the frames."""

from zkdeployment.base.features import Feature, value_in

FEATURE = Feature(
    document_kinds=value_in("promotion.documents", "DOCUMENT_KINDS"),
    document_rules=value_in("promotion.documents", "DOCUMENT_RULES"),
)

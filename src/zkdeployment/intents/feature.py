"""The contributions of deployment intents to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in

FEATURE = Feature(
    document_kinds=value_in("intents.documents.kinds", "DOCUMENT_KINDS"),
    review_rules=value_in("intents.rules.governance", "REVIEW_RULES"),
    publication_section=value_in("intents.section", "SECTION"),
    feed_parts=value_in("intents.feed", "FEED_PARTS"),
    acts=value_in("intents.user_acts", "ACTS"),
    api_routers=value_in("intents.api", "ROUTERS"),
    page_routers=value_in("intents.pages", "ROUTERS"),
    service_page=function_in("intents.pages", "service_page"),
    service_state=function_in("intents.requests", "service_state"),
    verbs=value_in("intents.verbs", "VERBS"),
)

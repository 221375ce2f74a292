"""The contributions of checks to the frames."""

from zkdeployment.base.features import Feature, function_in, value_in

FEATURE = Feature(
    document_kinds=value_in("checks.documents.kinds", "DOCUMENT_KINDS"),
    review_rules=value_in("checks.documents.kinds", "REVIEW_RULES"),
    criterion=function_in("checks.daemon.check_daemon", "check_criterion"),
    plan_addition=function_in("checks.views.wanted", "plan_addition"),
    feed_parts=value_in("checks.feed", "FEED_PARTS"),
    alarms=function_in("checks.opening", "alarms"),
    api_routers=value_in("checks.api.checks", "ROUTERS"),
    page_routers=value_in("checks.pages", "ROUTERS"),
    host_findings=function_in("checks.opening", "host_findings"),
    service_page=function_in("checks.pages", "service_page"),
    finding_body=value_in("checks.rules.overview", "CheckInstanceView"),
    retire_user=function_in("checks.opening", "retire_monitoring"),
    verbs=value_in("checks.verbs", "VERBS"),
)

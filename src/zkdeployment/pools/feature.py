"""The contributions of host pools to the frames."""

from zkdeployment.agent.places import AgentPlaces
from zkdeployment.base.features import Feature, function_in, value_in
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.documents.places import DocumentPlaces
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "pools",
    (
        SettingsPlaces(
            sections=value_in(".pools.settings", "SECTIONS"), check=function_in(".pools.opening", "lease_signer")
        ),
        DocumentPlaces(kinds=value_in(".pools.documents", "DOCUMENT_KINDS")),
        AgentPlaces(host_leases=value_in(".pools.host.leases", "HOST_LEASES")),
        FleetPlaces(
            feed_parts=value_in(".pools.feed", "FEED_PARTS"),
            alarms=function_in(".pools.opening", "alarms"),
            host_nodes=function_in(".pools.paths", "host_nodes"),
        ),
        ServicePlaces(
            api_routers=value_in(".pools.api", "ROUTERS"),
            page_routers=value_in(".pools.pages", "ROUTERS"),
            main_pages=value_in(".pools.pages", "MAIN_PAGES"),
            template_packages=("zkdeployment.pools",),
            state=function_in(".pools.service_requests", "service_state"),
            parts=function_in(".pools.opening", "service_parts"),
            metrics=function_in(".pools.feed", "metrics"),
            tenant_limits=function_in(".pools.opening", "tenant_limits"),
            retire_user=function_in(".pools.opening", "retire_user"),
        ),
        VerbPlaces(
            {
                "node": LazyVerb(
                    ".pools.verbs.groups", "Show and change the nodes of host pools.", "node", Subject.POOLS
                ),
                "pool": LazyVerb(".pools.verbs.groups", "Show and fill host pools.", "pool", Subject.POOLS),
                "pools": LazyVerb(
                    ".pools.verbs.groups",
                    "Run a worker of host pools in the foreground.",
                    "pools",
                    Subject.DAEMONS,
                ),
                "session": LazyVerb(
                    ".pools.verbs.groups", "Lease nodes of host pools to tenants.", "session", Subject.POOLS
                ),
            }
        ),
    ),
)

"""The composition root of ``agent --dry-run``: previews the plan of this host's agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.daemons.agent.plan_preview import preview
from zkdeployment.wiring.agent import preview_adapters
from zkdeployment.wiring.host_names import with_full_name

if TYPE_CHECKING:
    from zkdeployment.config.settings import Settings
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.plan import Plan


def preview_plan(settings: Settings) -> tuple[Revision, Plan]:
    """Return the cluster version and the plan of this host's agent, without a lock and without changes."""
    settings = with_full_name(settings)
    with Session(settings.servers) as session:
        adapters = preview_adapters(settings, session)
        return preview(adapters, settings.require_identity(), leasable=settings.leasable)

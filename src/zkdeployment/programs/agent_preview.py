"""The composition root of ``agent --dry-run``: previews the plan of this host's agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.plans import preview
from zkdeployment.programs.agent import preview_adapters, with_full_name
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.plan import Plan
    from zkdeployment.config.settings import Settings


def preview_plan(settings: Settings) -> tuple[Revision, Plan]:
    """Return the cluster version and the plan of this host's agent, without a lock and without changes."""
    settings = with_full_name(settings)
    with Session(settings.servers) as session:
        adapters = preview_adapters(settings, session)
        return preview(adapters, settings.require_identity(), leasable=settings.leasable)

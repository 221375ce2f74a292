"""The places of the frame of agents, which features fill. An agent loads features only if it needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.agent.adapters import HostLeases


@dataclass(frozen=True, kw_only=True)
class AgentPlaces:
    """The contributions of a feature to agents."""

    #: The functions of an agent whose host can be leased.
    host_leases: Callable[[], HostLeases]

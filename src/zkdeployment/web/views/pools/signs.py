"""The states of nodes as pages show them: each with a sign, in order of urgency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.host_status import HostState
from zkdeployment.pools.node import NodeState
from zkdeployment.web.views.intents.signs import StatusSign
from zkdeployment.web.views.states import SIGNS

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE_SIGNS: Mapping[NodeState, StatusSign] = {
    NodeState.FAILED: StatusSign("failed", "has to be forgiven or retired", SIGNS[HostState.FAILED]),
    NodeState.DEPROVISIONING: StatusSign("deprovisioning", "is cleaned", SIGNS[HostState.BEHIND]),
    NodeState.PROVISIONING: StatusSign("provisioning", "is made ready", SIGNS[HostState.DEPLOYING]),
    NodeState.CONTEXTUALIZING: StatusSign("contextualizing", "gets a tenant's key", SIGNS[HostState.DEPLOYING]),
    NodeState.DEPLOYED: StatusSign("deployed", "is leased", SIGNS[HostState.ABSENT]),
    NodeState.READY: StatusSign("ready", "can be leased", SIGNS[HostState.CONVERGED]),
    NodeState.UNUSED: StatusSign("unused", "is in no pool", SIGNS[HostState.EXCLUDED]),
}

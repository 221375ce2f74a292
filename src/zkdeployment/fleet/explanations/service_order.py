"""Explains why a host waits for another service, or for the hosts that gain a service which it loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import ago
from zkdeployment.fleet.explanations.explanation import Cause, Explanation
from zkdeployment.model.host import ORDER_PREFIX

if TYPE_CHECKING:
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.host import Host


def explain_wait_for_service(snapshot: FleetSnapshot, host: Host, now: float) -> Explanation | None:
    """Explain the service that a host waits for, and what the awaited host is doing; ``None`` without a wait.

    ``now`` is in seconds since the epoch.
    """
    if host.step is None or not host.step.startswith(ORDER_PREFIX):
        return None
    service, _, listed = host.step.removeprefix(ORDER_PREFIX).partition(" on ")
    name = listed.partition(" ")[0]
    since = "" if host.since is None else f" (last change {ago(host.since, now)})"
    return Explanation(
        Cause.ORDER,
        f"{host.identity} {host.step}{since}.",
        (_state(snapshot, name, service, now), "the host holds no lock while it waits"),
        (
            f"'zkdeployment why {name}' explains the state of that host",
            "the properties deploy_after and undeploy of the services define who waits for whom",
        ),
    )


def _state(snapshot: FleetSnapshot, name: str, service: str, now: float) -> str:
    """Return what the host that another host waits for is doing."""
    host = next((host for host in snapshot.hosts if name in {host.identity.name, host.identity.id}), None)
    if host is None:
        return f"{name} is not registered; it is to gain {service}, which would be missing on all hosts otherwise"
    if host.error is not None:
        return f"{host.identity} failed: {host.error}"
    if host.step is None:
        return f"{host.identity} has not begun to deploy"
    since = "" if host.since is None else f", last change {ago(host.since, now)}"
    return f"{host.identity} is at: {host.step}{since}"

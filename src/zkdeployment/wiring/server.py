"""Composition of the service: its adapters, which share one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.clock import SystemClock
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.wiring.operator import operator_adapters

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session


def server_adapters(session: Session) -> ServerAdapters:
    """Return the adapters of the service, which use ``session``."""
    return ServerAdapters(
        operator=operator_adapters(session),
        connection=lambda: session.link,
        clock=SystemClock(),
    )

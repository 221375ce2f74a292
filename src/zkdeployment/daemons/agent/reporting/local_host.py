"""The host as its own agent knows it: one value that registration, status and reports share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.deployment import DeploymentFailure
    from zkdeployment.model.host import Host


class LocalHost:
    """Holds the current ``Host`` value of this agent. Only the agent's thread uses it."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def end_deployment(self) -> None:
        """Clear the deployment in progress."""
        self.host = replace(self.host, deploying=None, step=None, steps=None)

    def set_error(self, error: str | None) -> None:
        """Replace the host's error; without an error the host has no failure either."""
        self.host = replace(self.host, error=error, failed=None if error is None else self.host.failed)

    def set_failure(self, error: str, failed: DeploymentFailure | None) -> None:
        """Replace the host's error and failure."""
        self.host = replace(self.host, error=error, failed=failed)

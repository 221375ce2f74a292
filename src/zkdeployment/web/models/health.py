"""The health of the service."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ServiceHealth(BaseModel):
    """The service and its connection to ZooKeeper work."""

    model_config = ConfigDict(extra="forbid")

    zookeeper: Literal["reachable"] = "reachable"

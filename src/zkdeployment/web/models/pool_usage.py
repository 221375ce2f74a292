"""The use of pools as JSON."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from zkdeployment.pools.usage.pool_usage import PoolUsage


class TenantUsageBody(BaseModel):
    """The use of a pool by a tenant."""

    model_config = ConfigDict(extra="forbid")

    tenant: str
    pool: str
    sessions: int = Field(description="The sessions that held nodes of the pool.")
    node_hours: float
    most_nodes: int = Field(description="The most nodes at the same time.")
    held: list[float] = Field(description="The average number of nodes in each period.")
    begun: int = Field(description="The sessions that began, and whose waiting times are known.")
    median_wait: float | None = Field(
        description="Seconds from the request until the tenant could log in to all nodes; null: unknown."
    )
    longest_wait: float | None


class PoolUsageAnswer(BaseModel):
    """The use of pools in a time; times are in seconds since the epoch."""

    model_config = ConfigDict(extra="forbid")

    schema_: Literal["zkdeployment/pool-usage/v1"] = Field("zkdeployment/pool-usage/v1", alias="schema")
    since: float
    until: float
    step: float = Field(description="The length of a period in seconds.")
    usage: list[TenantUsageBody]

    @classmethod
    def of(cls, usage: PoolUsage) -> "PoolUsageAnswer":
        """Return the answer with this use."""
        return cls.model_validate(usage.to_json())

"""The pools as a service keeps them in memory: one reading for all its clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.documents.pools.values import PoolConfiguration
from zkdeployment.pools.snapshot import PoolSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.pools.tenant_session import TenantSession


@dataclass(frozen=True, slots=True)
class PoolReading:
    """The published pools and what they hold.

    ``ended`` are the sessions that were active in the reading before this one and have ended since, by id.
    ``tenants`` are the names of all users, by id.
    """

    configuration: PoolConfiguration = PoolConfiguration()  # noqa: RUF009  it cannot be changed
    snapshot: PoolSnapshot = PoolSnapshot()  # noqa: RUF009  it cannot be changed
    ended: Mapping[int, TenantSession] = field(default_factory=dict)
    tenants: Mapping[int, str] = field(default_factory=dict)

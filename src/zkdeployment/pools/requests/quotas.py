"""Quotas of tenants: how many nodes a tenant may have in all, and of each pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.pools.tenant_session import effective_limits

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from zkdeployment.documents.pools.values import PoolConfiguration
    from zkdeployment.model.user import User


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of one tenant; ``total`` is ``None`` for admins, who have none. Exactly a quota is permitted."""

    total: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)

    def problem(self, held: int, held_by_pool: Mapping[str, int], wanted: Counter[str]) -> str | None:
        """Return which quota a request for ``wanted`` nodes exceeds, or ``None``.

        ``held`` is the number of nodes in the tenant's sessions.
        """
        more = wanted.total()
        if self.total is not None and held + more > self.total:
            return _excess("", more, held, self.total)
        for pool, quantity in wanted.items():
            most, present = self.pools.get(pool), held_by_pool.get(pool, 0)
            if most is not None and present + quantity > most:
                return _excess(f"the pool {pool}: ", quantity, present, most)
        return None


def quotas_of(tenant: User, configuration: PoolConfiguration) -> Quotas:
    """Return the quotas of a tenant: its own or the default one in all, and those of the pools."""
    if tenant.is_admin:
        return Quotas()
    pools = {name: pool.node_quota for name, pool in configuration.pools.items() if pool.node_quota is not None}
    return Quotas(effective_limits(tenant, configuration.defaults).node_quota, pools)


def _excess(place: str, wanted: int, held: int, most: int) -> str:
    return (
        f"quota exceeded: {place}requested nodes ({wanted}) + current allocation ({held}) = {held + wanted} >"
        f" {most}; retire a session, or request fewer nodes"
    )

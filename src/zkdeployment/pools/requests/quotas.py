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

_ADVICE = "retire a session, or request fewer nodes"


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
            return f"quota exceeded: {_sum(more, held)} > {self.total}; {_ADVICE}"
        for pool, quantity in wanted.items():
            most, present = self.pools.get(pool), held_by_pool.get(pool, 0)
            if most is not None and present + quantity > most:
                return f"quota exceeded: the pool {pool}: {_sum(quantity, present)} > {most}; {_ADVICE}"
        return None


def quotas_of(tenant: User, configuration: PoolConfiguration) -> Quotas:
    """Return the quotas of a tenant: its own or the default one in all, and those of the pools."""
    if tenant.is_admin:
        return Quotas()
    pools = {name: pool.node_quota for name, pool in configuration.pools.items() if pool.node_quota is not None}
    return Quotas(effective_limits(tenant, configuration.defaults).node_quota, pools)


def _sum(wanted: int, held: int) -> str:
    return f"requested nodes ({wanted}) + current allocation ({held}) = {held + wanted}"

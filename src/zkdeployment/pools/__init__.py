"""Host pools: the life cycle of nodes, quotas, the choice of nodes, levels and expiry. Pure."""

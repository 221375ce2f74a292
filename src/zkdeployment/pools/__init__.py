"""Host pools: nodes that are lent to tenants for sessions, compatible with Duffy 3."""

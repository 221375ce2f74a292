"""Decisions about pools: nodes, sessions, quotas, the queue, levels, leases and the work of a worker. Pure."""

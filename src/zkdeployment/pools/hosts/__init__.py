"""Traces that tenants of host pools leave on hosts of the fleet."""

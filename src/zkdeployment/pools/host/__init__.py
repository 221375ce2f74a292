"""The code of host pools on a lent host: its lease, the access of its tenant, and traces of tenants."""

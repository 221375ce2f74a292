"""The side of a lent host: its lease, the access of its tenant, and traces that tenants leave."""

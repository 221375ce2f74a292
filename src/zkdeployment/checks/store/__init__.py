"""Check instances, the monitoring systems that they are rolled out to, and what instances are computed from."""

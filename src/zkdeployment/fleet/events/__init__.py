"""Events: what changed in the fleet, for clients that follow the service."""

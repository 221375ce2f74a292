"""Events: the changes in the fleet, for clients that follow the service."""

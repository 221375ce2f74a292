"""The state of the fleet as operators see it: status, health, explanations, metrics. Pure."""

"""Reports a host's state: registration, progress, refusals, failures, inventory."""

"""A Nagios on this machine, and the service as its bridge sees it."""

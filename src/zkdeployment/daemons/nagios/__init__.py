"""The Nagios bridge: it rolls out checks to a Nagios on this machine, and reports their results."""

"""Checks in Nagios: definitions from the details of deployments, results from the status file. Pure."""

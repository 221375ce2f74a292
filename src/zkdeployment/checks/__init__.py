"""Checks of services, and the workflow that rolls them out to monitoring systems such as Nagios."""

"""Checks: the instances of checks, and the workflow that rolls them out to monitoring systems. Pure."""

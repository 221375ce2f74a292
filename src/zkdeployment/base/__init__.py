"""Errors, text, log, the machine, daemons, and the values that all capabilities share."""

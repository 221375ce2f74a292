"""Decisions of an agent: the steps of a plan and their order, waits, and the software that a host needs. Pure."""

"""Rollouts: strategy documents, groups, their order and criteria, and the hosts that may start. Pure."""

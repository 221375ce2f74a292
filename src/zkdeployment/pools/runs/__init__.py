"""Runs of playbooks for nodes of pools, as they are recorded."""

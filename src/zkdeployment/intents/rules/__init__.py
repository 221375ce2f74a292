"""Decisions about intents: governance, life cycle, approvals, instances and status. Pure."""

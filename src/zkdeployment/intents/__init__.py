"""Intents: which services they govern, their life cycle, approvals, and the status of their resources."""

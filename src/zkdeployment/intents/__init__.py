"""Intents: the services that they govern, their life cycle, approvals, and the status of their resources."""

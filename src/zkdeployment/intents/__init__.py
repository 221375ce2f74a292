"""Intents: which services they govern, their life cycle, and the status of what they instantiated. Pure."""

"""Webhooks: the events that a service sends to receivers, their form, and the times of attempts."""

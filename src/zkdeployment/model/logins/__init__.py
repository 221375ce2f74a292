"""Logins to the service: login sessions, failed logins, and the throttling of these."""

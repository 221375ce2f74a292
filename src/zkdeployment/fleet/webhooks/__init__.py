"""Webhooks: which events a service sends to which receivers, in which form and when."""

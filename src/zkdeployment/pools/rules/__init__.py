"""Requests for sessions before they have nodes: quotas, and the queue of requests that wait. Pure."""

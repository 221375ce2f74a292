"""Rollouts as traces: spans from records, their export over OTLP, and the steps of hosts that were observed."""

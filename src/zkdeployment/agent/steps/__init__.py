"""Executes the steps of a plan: order, locks, checks and their effects on the host."""

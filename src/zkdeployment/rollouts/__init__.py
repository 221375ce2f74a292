"""Rollouts by a strategy: the coordinator, its records, and the views and verbs about them."""

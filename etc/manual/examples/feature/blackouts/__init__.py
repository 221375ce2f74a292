"""Blackouts: times in which no group of a rollout gets its verdict."""

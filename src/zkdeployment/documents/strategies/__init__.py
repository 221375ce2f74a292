"""Strategies and the configuration that chooses one: their forms, checks, values and encoding."""

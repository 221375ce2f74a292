"""Chaos: a sandbox of real programs under faults that a seed draws, checked from outside."""

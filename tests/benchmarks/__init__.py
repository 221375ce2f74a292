"""Benchmarks: each measures what we do and what it is held against in one run; ``scripts/benchmark`` runs them."""

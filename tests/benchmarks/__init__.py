"""Benchmarks: each measures the program and its reference in one run; ``scripts/benchmark`` runs them."""

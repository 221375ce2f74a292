"""Decisions about publications: review, changes, guards, convergence, precedence and rollbacks. Pure."""

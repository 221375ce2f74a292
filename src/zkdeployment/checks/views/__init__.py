"""Checks as pages and programs show them. Pure."""

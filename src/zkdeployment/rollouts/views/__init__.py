"""Rollouts as pages and explanations show them. Pure."""

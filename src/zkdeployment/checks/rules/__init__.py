"""Decisions about checks: which instances are wanted, their workflow, and their findings. Pure."""

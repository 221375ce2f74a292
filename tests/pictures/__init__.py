"""Draws the pictures of the README and the manual; state machines and rollouts from what the code says."""

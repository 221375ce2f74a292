"""Draws the pictures of the README and the manual; state machines and rollouts from the tables of the code."""

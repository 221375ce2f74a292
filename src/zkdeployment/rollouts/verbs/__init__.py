"""The verbs of rollouts."""

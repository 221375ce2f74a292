"""The coordinator: leads the fleet through a rollout."""

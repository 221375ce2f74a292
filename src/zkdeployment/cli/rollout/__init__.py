"""``zkdeployment rollout``, one verb a file."""

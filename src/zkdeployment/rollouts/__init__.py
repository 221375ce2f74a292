"""``zkdeployment rollout``: verbs on rollouts and strategies."""

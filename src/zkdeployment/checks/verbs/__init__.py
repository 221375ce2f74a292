"""``zkdeployment checks``: verbs on checks and their instances."""

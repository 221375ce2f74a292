"""``zkdeployment tree``: verbs on the live tree and on tree files."""

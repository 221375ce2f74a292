"""The records of a rollout that agents and syncers read."""

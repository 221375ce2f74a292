"""The records of rollouts: for the coordinator, the agents and the operators."""

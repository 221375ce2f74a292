"""The records of rollouts in ZooKeeper, as the coordinator, the agents and the operators use them."""

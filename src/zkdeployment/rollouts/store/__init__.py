"""The records of rollouts in ZooKeeper, as the coordinator and the operators use them."""

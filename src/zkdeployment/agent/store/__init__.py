"""The agent in ZooKeeper: registration, inventories, locks, and the order between services."""

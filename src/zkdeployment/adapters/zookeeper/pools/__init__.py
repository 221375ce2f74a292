"""Host pools in ZooKeeper."""

"""Publications in ZooKeeper: writing and reading them."""

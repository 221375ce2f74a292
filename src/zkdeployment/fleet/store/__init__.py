"""The fleet in ZooKeeper as operators read it, and the acts of operators."""

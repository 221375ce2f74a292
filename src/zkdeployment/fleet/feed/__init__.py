"""The cached fleet: a service reads ZooKeeper once for all its clients."""

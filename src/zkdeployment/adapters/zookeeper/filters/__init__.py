"""Split updates in ZooKeeper: the instances of services, and the lists that filters keep."""

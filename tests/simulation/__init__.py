"""A fleet in one thread: daemons as they are, on a simulated ZooKeeper, clock, network and hosts, by a seed."""

"""A fleet in one thread: the real daemons on a simulated ZooKeeper, clock, network and hosts, by a seed."""

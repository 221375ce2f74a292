"""A throw-away fleet on this machine: real ZooKeeper, real git, real RPMs."""

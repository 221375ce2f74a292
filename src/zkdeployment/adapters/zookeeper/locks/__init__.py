"""Locks in ZooKeeper: of services, of roles, and what their dead holders left behind."""

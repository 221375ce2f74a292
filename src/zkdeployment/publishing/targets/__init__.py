"""Targets: the services that each host id, host name and role must run, compiled from the whole tree.

The syncer compiles targets for publication and checks them for all hosts; an agent checks its own again. Both use
this package, so a tree that one of them accepts is accepted by the other.
"""

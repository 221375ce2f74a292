"""Ports: what daemons and commands need from ZooKeeper, the host, repositories and the supervisor.

Each Protocol is one dependency. Adapters implement the Protocols and raise only exceptions of ``errors``. The
docstrings here are the contract; adapters do not repeat them.
"""

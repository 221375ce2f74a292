"""Selects the tests of package managers for the dnf of this machine."""

from zkdeployment.agent.packages.command import find_program

#: A dnf 5 never waits for the order.
collect_ignore = [] if find_program().generation == 4 else ["test_held_dnf.py"]

"""Adapters: the implementations of the ports, each for one external system.

Adapters do all I/O, take and return values of ``model``, and raise only errors of ``zkdeployment.errors``.
Decisions belong into ``planning``, ``rollout`` and ``fleet``.
"""

"""Runs the scripts of packages: the runner, the output file, the record of the running script, systemd scopes.

Running other programs belongs into ``adapters.process``.
"""

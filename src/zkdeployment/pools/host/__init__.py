"""The files of a host: software in ``/opt``, markers in ``/etc``, registries, and the agent's run directory."""

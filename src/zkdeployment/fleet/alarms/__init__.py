"""Alarms of the systems beside the fleet itself, for ``monitor --cluster``: checks and host pools."""

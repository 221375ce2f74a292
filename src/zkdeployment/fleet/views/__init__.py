"""The fleet in verbs, on pages and in the monitor: decisions on snapshots. Pure."""

"""The fleet as verbs, pages and the monitor show it: decisions on snapshots. Pure."""

"""The only user of kazoo."""

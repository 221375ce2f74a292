"""What became of the commits of the branch: jobs, and tips that the syncer refuses."""

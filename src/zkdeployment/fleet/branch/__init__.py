"""The outcomes of the branch's commits: the jobs that follow them, and tips that the syncer refuses."""

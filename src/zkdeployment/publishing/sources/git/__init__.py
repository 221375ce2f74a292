"""The tree in a git repository: mirror, files of a commit, signatures, hooks."""

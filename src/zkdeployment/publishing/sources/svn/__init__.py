"""The tree in a Subversion repository."""

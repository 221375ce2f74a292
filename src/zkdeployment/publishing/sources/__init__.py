"""The repositories of the tree: git and Subversion."""

"""Checkouts of software from git and Subversion, and the directories that hold them."""

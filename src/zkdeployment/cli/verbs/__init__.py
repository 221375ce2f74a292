"""The verbs that show the fleet or act on it, one a file."""

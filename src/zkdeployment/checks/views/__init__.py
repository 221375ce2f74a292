"""The content of each page as values: pure functions of snapshots, of the request's view, and of the time."""

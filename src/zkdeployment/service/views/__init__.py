"""The content of each page as values: pure functions of snapshots, of the view in the address, and of the time."""

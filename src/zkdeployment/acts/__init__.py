"""Acts that change what is wanted: commits that commands, the service and the coordinator make in the same way."""

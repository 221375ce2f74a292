"""Acts that change the wanted state: commits that commands, the service and the coordinator make alike."""

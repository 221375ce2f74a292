"""Acts that commands, the service and the coordinator carry out alike: most are commits."""

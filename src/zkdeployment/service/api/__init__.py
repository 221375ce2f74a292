"""The HTTP operations on the fleet: one router for each subject."""

"""The JSON API: one router for each subject."""

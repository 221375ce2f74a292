"""Decisions for editors: functions of texts and of a review."""

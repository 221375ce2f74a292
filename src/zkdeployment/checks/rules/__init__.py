"""The state of monitoring systems beyond their instances."""

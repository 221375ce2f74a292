"""One verb a file, no logic."""

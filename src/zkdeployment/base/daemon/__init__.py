"""The long-running parts: read, decide, act, record."""

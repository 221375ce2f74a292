"""The HTTP operations on checks, and the interface for monitoring systems."""

"""The service: an HTTP server that answers people and programs."""

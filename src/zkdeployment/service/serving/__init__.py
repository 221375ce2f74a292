"""The HTTP server: its listeners, its connections and its log of requests."""

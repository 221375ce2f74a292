"""Server-sent events: the hub that all streams share, and the stream of one client."""

"""Server-sent events: what every stream shares, and the stream of one client."""

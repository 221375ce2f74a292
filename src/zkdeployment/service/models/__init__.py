"""The bodies of requests and responses about the fleet."""

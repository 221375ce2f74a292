"""The HTTP operations on groups and clusters, at the addresses of EMCO."""

"""The metrics of each daemon, as functions from facts to values; adapters write them for Prometheus."""

"""Check instances, their monitoring systems, and the sources from which instances are computed."""

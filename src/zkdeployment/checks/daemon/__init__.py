"""The part of a coordinator that computes check instances, runs their life cycle, and pokes monitoring systems."""

"""The check instances in a coordinator: computing them, their life cycle, and the pokes of monitoring systems."""

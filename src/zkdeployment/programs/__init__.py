"""The composition root, the only place that builds adapters and passes them on: one module for each program."""

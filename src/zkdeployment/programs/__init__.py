"""The composition root: the only place that builds adapters and hands them out, one module a program."""

"""The verbs about host pools: ``pool``, ``session`` and ``node``."""

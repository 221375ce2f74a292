"""Acts on host pools, which verbs, the service and its pages carry out alike."""

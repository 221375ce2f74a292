"""The worker of host pools: it fills pools, prepares sessions, ends them, and deprovisions nodes."""

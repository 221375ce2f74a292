"""The forms of acts on the fleet and on host pools, and the acts themselves."""

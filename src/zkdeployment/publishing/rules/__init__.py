"""Plans of hosts: targets (tree to assignments) and planner (assignments and inventory to steps). Pure."""

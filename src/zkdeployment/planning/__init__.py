"""What a host must do: targets (tree to assignments) and planner (wanted and had to steps). Pure."""

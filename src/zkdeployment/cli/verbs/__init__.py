"""The verbs about the fleet, the tree and publications. They contain no logic."""

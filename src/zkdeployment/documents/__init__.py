"""Documents beside the tree, strategies and quarantines: their text, its checks, its values and its changes."""

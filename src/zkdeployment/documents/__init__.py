"""Documents beside the tree, such as strategies and quarantines: text, checks, values and changes."""

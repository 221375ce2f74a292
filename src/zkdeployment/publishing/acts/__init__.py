"""Acts as commits in the repository of the tree: rollbacks, quarantines, and the check before a push."""

"""The syncer: from the branch of the tree to a publication."""

"""Check groups: how many deployments of a part of the tree have to be OK."""

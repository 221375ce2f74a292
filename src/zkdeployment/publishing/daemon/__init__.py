"""The syncer: publishes the tip of the tree's branch."""

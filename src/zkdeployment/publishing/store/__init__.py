"""Publishing a revision into ZooKeeper and reading what was published."""

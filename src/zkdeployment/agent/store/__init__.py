"""The adapters of ZooKeeper. No other package imports kazoo."""

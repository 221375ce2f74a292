"""The connection to ZooKeeper: session, reads, transactions, node data, paths."""

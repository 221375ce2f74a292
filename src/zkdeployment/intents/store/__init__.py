"""The records of intents in ZooKeeper, and the record of what a syncer accepted."""

"""The records of intents in ZooKeeper, and the record of a syncer's acceptances."""

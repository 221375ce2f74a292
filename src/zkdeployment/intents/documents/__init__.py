"""Documents of deployment intent groups and of clusters with network intents: their values and their forms."""

"""The pages of intents: the list, and the page of one group or cluster."""

"""The verbs about intents: what is deployed only after an approval."""

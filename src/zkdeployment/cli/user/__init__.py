"""The verbs about users of the service."""

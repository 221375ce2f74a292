"""The verbs of promotions."""

"""Views of promotions."""

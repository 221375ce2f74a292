"""The tree language: text to tree and back, links, differences, checks. Pure."""

"""The tree language: parsing and formatting, links, layers, differences and lint. Pure functions of values."""

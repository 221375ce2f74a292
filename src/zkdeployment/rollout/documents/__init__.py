"""Documents of strategies: YAML text, its checks, its values, and their encoding."""

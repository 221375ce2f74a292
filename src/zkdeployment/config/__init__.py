"""From a configuration file to validated, frozen settings."""

"""The configuration: from an INI file to validated, frozen settings."""

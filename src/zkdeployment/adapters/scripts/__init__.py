"""Running the scripts of packages: their output, their record, their scopes."""

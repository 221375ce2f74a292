"""The frame of verbs: options, tables, live displays and exit codes."""

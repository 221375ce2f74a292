"""Options, tables and output that several verbs share."""

"""Options, input files and output that several verbs share; no verb is defined here."""

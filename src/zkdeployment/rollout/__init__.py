"""Who may go now: strategy documents, groups, their order and their criteria. Pure."""

"""Records of the runs of playbooks for nodes of pools."""

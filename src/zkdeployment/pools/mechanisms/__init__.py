"""The mechanisms that make and remove nodes: playbooks, and hosts of this fleet."""

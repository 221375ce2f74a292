"""Promotion: moves revisions from fleet to fleet, by the branch that each fleet follows."""
